//! Tests that need a process to themselves: another user's, or one whose memory can be measured.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::thread;

use super::*;
use crate::skip::is_root;

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

/// Whether the rest of the test is to be run here, where permissions count. Otherwise it has been run as `nobody`, or skipped.
pub(super) fn as_nobody(test: &str) -> bool {
    if is_alone() || !rustix::process::geteuid().is_root() {
        return true;
    }
    if !is_root() {
        return false;
    }
    let mut child = this(test);
    // 65534 is nobody, everywhere.
    match child.uid(65534).gid(65534).current_dir("/").output() {
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
    const LINES: usize = 200_000;
    if is_alone() {
        // With long names, of which none may be kept.
        let tree = TempDir::new().unwrap();
        let options = Options::new().directory(tree.path()).hash_file("-");
        let (mut stdout, mut stderr) = (Counter(0), Counter(0));
        let outcome = check_into(&options, &mut stdout, &mut stderr).unwrap();
        assert_eq!(outcome, Outcome::Failed);
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find(|line| line.starts_with("VmHWM"));
        println!("{} lines, {}", stdout.0, peak.unwrap());
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
        line::write(&sha256(b""), "n/".repeat(500).as_bytes(), &mut line);
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
    let numbers: Vec<usize> = said
        .split(|other: char| !other.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    assert_eq!(numbers[0], LINES, "{said}");
    assert!(numbers[1] < 40_000, "of 210 MB it has kept some: {said}");
}

/// Counts lines.
struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.iter().filter(|byte| **byte == b'\n').count();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
