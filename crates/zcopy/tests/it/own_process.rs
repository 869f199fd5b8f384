//! Tests that run in a process of their own: with limits, or as another user.

use std::process::{Command, Stdio};

/// The environment variable that names the test in the process that is to run it.
pub(crate) const VARIABLE: &str = "ZCOPY_TEST_OWN_PROCESS";

/// Returns true in the process that is to run the test, which is named by its whole path. In any
/// other process, runs the test in a child process, which `prepare` has set up, and returns false.
///
/// # Panics
///
/// If the test fails in the child process.
pub(crate) fn is_own_process(test: &str, prepare: impl FnOnce(&mut Command)) -> bool {
    // If SIGXFSZ is ignored, write(2) fails with EFBIG.
    let shell = ["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""];
    is_own_process_under(&shell, test, prepare)
}

/// Does the same with a child process that this command runs: the program of the tests and its
/// arguments are the command's last arguments.
///
/// # Panics
///
/// If the test fails in the child process.
pub(crate) fn is_own_process_under(
    launcher: &[&str],
    test: &str,
    prepare: impl FnOnce(&mut Command),
) -> bool {
    if std::env::var(VARIABLE).is_ok_and(|running| running == test) {
        return true;
    }
    let mut command = Command::new(launcher[0]);
    command
        .args(&launcher[1..])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--include-ignored"])
        .args(["--test-threads=1", "--nocapture"])
        .env(VARIABLE, test)
        .stdin(Stdio::null());
    prepare(&mut command);
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}: {stdout}{stderr}",
        output.status
    );
    assert!(
        stdout.contains("1 passed"),
        "{test} is the name of a test: {stdout}"
    );
    false
}
