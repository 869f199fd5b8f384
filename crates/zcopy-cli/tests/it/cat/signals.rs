//! Pipes whose reader has gone, and files that may not grow.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use crate::child::{end_of, zc_cat};
use crate::script::as_gnu;

#[test]
fn a_closed_pipe_ends_it_silently_by_sigpipe() {
    for operand in ["/proc/version", "/proc/self/exe"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = zc_cat();
        child.arg(operand).stdout(writer).stderr(Stdio::piped());
        let output = child.output().unwrap();
        let sigpipe = rustix::process::Signal::PIPE.as_raw();
        assert_eq!(output.status.signal(), Some(sigpipe), "{operand}");
        assert_eq!(output.stderr, b"");
    }
}

#[test]
fn a_closed_pipe_is_a_write_error_where_the_parent_ignores_sigpipe() {
    // The reader has come and gone before anything is written.
    let script = "trap '' PIPE; mkfifo p; { : < p & }; exec > p; wait; cat f big";
    as_gnu(script).fails_with("cat: write error: Broken pipe\n");
}

#[test]
fn a_reader_that_has_enough_ends_it() {
    let (reader, writer) = std::io::pipe().unwrap();
    let child = zc_cat().arg("/dev/zero").stdout(writer).spawn().unwrap();
    let start = crate::child::read_exactly(reader, 3 << 20);
    assert!(start.iter().all(|byte| *byte == 0));
    let sigpipe = rustix::process::Signal::PIPE.as_raw();
    assert_eq!(end_of(child).signal(), Some(sigpipe));
}
