//! A run that is killed between any two of its calls: what it leaves for the next user of the same
//! open file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::{Command, Stdio};

use zcopy::Strategy;

use crate::files::pattern;
use crate::refused::needs;
use crate::skip::has_program;

/// The longest range that a step of a transfer reserves of a file that is fed by a pipe.
const RESERVED: usize = 1 << 20;

/// `strace` that kills zc-cat at its `nth` splice.
fn killed_at_splice(nth: usize) -> Command {
    let mut strace = Command::new("strace");
    strace.args(["-qq", "-o", "/dev/null"]);
    strace.arg(format!("--inject=splice:signal=SIGKILL:when={nth}"));
    strace.arg(env!("CARGO_BIN_EXE_zc-cat"));
    strace
}

/// The next writer at the same cursor writes behind what was reserved, and overwrites nothing.
#[test]
fn a_kill_leaves_at_most_one_reserved_range_between_its_bytes_and_those_of_the_next_writer() {
    if !has_program("strace") || !needs(&[Strategy::Splice]) {
        return;
    }
    let bytes = pattern(4 << 20);
    let mut n_gaps = 0;
    for nth in 1..=9 {
        let mut out = tempfile::tempfile().unwrap();
        let mut cat = killed_at_splice(nth)
            .stdin(Stdio::piped())
            .stdout(out.try_clone().unwrap())
            .spawn()
            .unwrap();
        // It may be killed before it has read all of that.
        let _ = cat.stdin.take().unwrap().write_all(&bytes);
        assert!(!cat.wait().unwrap().success(), "{nth}");
        out.write_all(b"the next").unwrap();

        let mut found = Vec::new();
        out.seek(SeekFrom::Start(0)).unwrap();
        out.read_to_end(&mut found).unwrap();
        let found = found.strip_suffix(b"the next").unwrap();
        let n_moved = found.iter().zip(&bytes).take_while(|(a, b)| a == b).count();
        let gap = &found[n_moved..];
        assert!(gap.iter().all(|byte| *byte == 0), "{nth}: other bytes");
        assert!(gap.len() <= RESERVED, "{nth}: {} bytes", gap.len());
        n_gaps += usize::from(!gap.is_empty());
    }
    assert!(n_gaps > 0, "no run was killed with a reserved range");
}

/// The next reader at the same cursor begins behind what was reserved, as behind what a killed
/// `cat` has read.
#[test]
fn a_kill_takes_at_most_one_reserved_range_from_the_next_reader() {
    if !has_program("strace") || !needs(&[Strategy::Splice]) {
        return;
    }
    let bytes = pattern(4 << 20);
    for nth in 1..=7 {
        let mut source = tempfile::tempfile().unwrap();
        source.write_all(&bytes).unwrap();
        source.rewind().unwrap();
        let null = File::options().write(true).open("/dev/null").unwrap();
        let status = killed_at_splice(nth)
            .stdin(source.try_clone().unwrap())
            .stdout(null)
            .status();
        assert!(!status.unwrap().success(), "{nth}");
        // Every other splice gives the sink what the one before has taken.
        let n_taken = (nth / 2) << 20;
        let cursor = usize::try_from(source.stream_position().unwrap()).unwrap();
        let range = n_taken..=n_taken + RESERVED;
        assert!(range.contains(&cursor), "{nth}: {cursor}");
    }
}
