//! What has come is passed on while the writer pauses.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::child::comes_to_hold;
use crate::child::{end_of, read_exactly, zc_tee};

#[test]
fn each_line_appears_everywhere_before_the_next_is_written() {
    for options in [&[][..], &["-a"], &["-p"], &["-c"], &["--stable", "-v"]] {
        let dir = tempfile::tempdir().unwrap();
        let [fifo, file] = ["p", "a"].map(|name| dir.path().join(name));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let mut child = zc_tee();
        child.args(options).arg(&fifo).arg(&file);
        child
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = child.spawn().unwrap();
        let other = File::open(fifo).unwrap();
        let stdout: OwnedFd = child.stdout.take().unwrap().into();
        let mut stdin = child.stdin.take().unwrap();
        let mut all = Vec::new();
        for line in [&b"one\n"[..], b"two\n", &[b'x'; 16_000], b"four\n"] {
            stdin.write_all(line).unwrap();
            all.extend_from_slice(line);
            assert_eq!(read_exactly(other.try_clone().unwrap(), line.len()), line);
            let stdout = File::from(stdout.try_clone().unwrap());
            assert_eq!(read_exactly(stdout, line.len()), line);
            comes_to_hold(&file, &all);
        }
        drop(stdin);
        assert!(end_of(child).success(), "{options:?}");
    }
}
