//! A test that runs itself once more, in a process of its own: with limits, or as another user.

use std::process::{Command, Stdio};

const MARK: &str = "ZCOPY_TEST_ALONE";

/// Whether this is the test to be run, and not the one that runs it. If it is the latter, it has run it when this returns,
/// as `prepare` would have it.
///
/// # Panics
///
/// If the test fails there.
pub(super) fn is_alone(test: &str, prepare: impl FnOnce(&mut Command)) -> bool {
    if std::env::var(MARK).is_ok_and(|alone| alone == test) {
        return true;
    }
    // Who ignores SIGXFSZ is told EFBIG.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("fan_out::{test}")])
        .args(["--test-threads=1", "--nocapture"])
        .env(MARK, test)
        .stdin(Stdio::null());
    prepare(&mut shell);
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}{errors}", output.status);
    assert!(
        said.contains("1 passed"),
        "{test} is the name of a test: {said}"
    );
    false
}
