//! Tests that need a process to themselves: another user's, or one whose memory can be measured.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::thread;

use super::*;

/// Says to this program that it is the process of its own.
const ALONE: &str = "ZCOPY_TEST_ALONE";

/// This program, about to run one of its tests.
fn this(test: &str) -> Command {
    let mut this = Command::new(std::env::current_exe().unwrap());
    this.args(["--exact", "--nocapture", test]).env(ALONE, "1");
    this
}

fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Whether the rest of the test is to be run here, where permissions count. Otherwise it has been
/// run as `nobody`, or skipped.
pub(super) fn as_nobody(test: &str) -> bool {
    if is_alone() || !rustix::process::geteuid().is_root() {
        return true;
    }
    let mut child = this(test);
    // 65534 is nobody, everywhere.
    child.uid(65534).gid(65534).current_dir("/");
    // The user's own TMPDIR may be closed to others.
    match child.env("TMPDIR", "/var/tmp").output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            let ran = said.contains("1 passed");
            assert!(output.status.success() && ran, "{output:?}");
        }
        Err(error) => skip(&format!("nobody may not run the tests: {error}")),
    }
    false
}

#[test]
fn memory_is_the_same_however_long_the_sum_file() {
    const LINES: usize = 100_000;
    // Long names, of which none may be kept.
    let name = format!("{}empty", format!("{}/", "n".repeat(200)).repeat(3));
    if is_alone() {
        let tree = Tree::new();
        tree.put(name, "");
        let options = Options::new().directory(tree.path()).hash_file("-");
        verify(&options.silent(true)).is_verified(0);
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find(|line| line.starts_with("VmHWM"));
        writeln!(std::io::stdout(), "{}", peak.unwrap()).unwrap();
        return;
    }
    let mut child = this("sums::alone::memory_is_the_same_however_long_the_sum_file")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = thread::spawn(move || {
        let mut line = Vec::new();
        line::write(&sha256(b""), name.as_bytes(), &mut line);
        let lines = line.repeat(100);
        for _ in 0..LINES / 100 {
            stdin.write_all(&lines).unwrap();
        }
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let said = said.lines().find(|line| line.contains("VmHWM")).unwrap();
    let digits = said.split_whitespace().nth(1).unwrap();
    let peak_kib: usize = digits.parse().unwrap();
    assert!(peak_kib < 24_000, "of 67 MB it has kept some: {said}");
}
