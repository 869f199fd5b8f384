//! Standard descriptors that are closed, full, or open the wrong way; outputs that do not block; what
//! `close(2)` says.

use std::io::{Read, Write};
use std::process::Stdio;
use std::thread;

use rustix::pipe::{PipeFlags, pipe_with};

use super::{as_gnu, as_new_gnu};
use crate::child::{end_of, zc_tee};
use crate::script::big;
use crate::skip::has_program;

const CLOSED_OUTPUT: &str = "tee: 'standard output': Bad file descriptor\n";
const CLOSED_INPUT: &str =
    "tee: read error: Bad file descriptor\ntee: standard input: Bad file descriptor\n";

#[test]
fn closed_output_is_an_error_and_the_files_are_written() {
    for mode in ["", "-p", "--output-error=warn"] {
        let outcome = as_gnu(&format!("tee {mode} a b < f >&-"));
        outcome.fails_with(CLOSED_OUTPUT);
        assert_eq!(outcome.files["a"], b"hi\n");
        assert_eq!(outcome.files["b"], b"hi\n");
        as_gnu(&format!("cat big | tee {mode} a b >&-")).fails_with(CLOSED_OUTPUT);
        as_gnu(&format!("tee {mode} < f >&-")).fails_with(CLOSED_OUTPUT);
    }
}

#[test]
fn closed_output_ends_the_modes_that_exit_before_a_byte_is_written() {
    for mode in ["exit", "exit-nopipe"] {
        let outcome = as_gnu(&format!("tee --output-error={mode} a < f >&-"));
        outcome.fails_with(CLOSED_OUTPUT);
        assert_eq!(outcome.files["a"], b"");
    }
}

#[test]
fn closed_output_does_not_matter_to_who_has_nothing_to_write() {
    for mode in ["", "-p", "--output-error=exit"] {
        as_gnu(&format!("tee {mode} a < empty >&-")).succeeds_with("");
        as_gnu(&format!("tee {mode} < empty >&-")).succeeds_with("");
    }
}

#[test]
fn output_that_is_open_for_reading_is_as_good_as_closed() {
    for target in ["1< g", "1< dir"] {
        let outcome = as_gnu(&format!("tee a < f {target}"));
        outcome.fails_with(CLOSED_OUTPUT);
        assert_eq!(outcome.files["a"], b"hi\n");
    }
}

#[test]
fn an_error_of_another_output_comes_after_that_of_closed_output() {
    as_gnu("tee /dev/full < f >&-").fails_with(&format!(
        "{CLOSED_OUTPUT}tee: /dev/full: No space left on device\n"
    ));
}

#[test]
fn closed_input_is_a_read_error() {
    let outcome = as_gnu("tee g a <&-");
    outcome.fails_with(CLOSED_INPUT);
    assert_eq!(
        (&outcome.files["g"][..], &outcome.files["a"][..]),
        (&b""[..], &b""[..])
    );
    as_gnu("tee <&-").fails_with(CLOSED_INPUT);
    as_gnu("tee -p a <&- >&-").fails_with(CLOSED_INPUT);
    as_gnu("tee --output-error=exit a <&- >&-").fails_with(CLOSED_INPUT);
}

#[test]
fn a_closed_descriptor_cannot_be_opened_by_its_name() {
    as_gnu("tee /dev/fd/1 a < f >&-").fails_with(&format!(
        "tee: /dev/fd/1: No such file or directory\n{CLOSED_OUTPUT}"
    ));
}

#[test]
fn a_directory_and_input_that_is_open_for_writing_are_read_errors() {
    as_gnu("tee a < dir").fails_with("tee: read error: Is a directory\n");
    as_gnu("tee < dir").fails_with("tee: read error: Is a directory\n");
    as_gnu("tee a 0>> g").fails_with("tee: read error: Bad file descriptor\n");
    // Nothing is mapped at address 0.
    as_gnu("tee a < /proc/self/mem").fails_with("tee: read error: Input/output error\n");
}

#[test]
fn closed_standard_error_costs_the_message_alone() {
    let outcome = as_gnu("tee no/a a < f 2>&-");
    outcome.fails_after("hi\n", "");
    assert_eq!(outcome.files["a"], b"hi\n");
}

/// GNU tee 9.1 loses what does not fit.
#[test]
fn output_that_does_not_block_is_waited_for() {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
    rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::empty()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut child = zc_tee();
    child
        .arg(dir.path().join("a"))
        .stdin(Stdio::piped())
        .stdout(writer);
    let mut running = child.spawn().unwrap();
    drop(child);
    let mut stdin = running.stdin.take().unwrap();
    let feeder = thread::spawn(move || stdin.write_all(&big()).unwrap());
    let mut bytes = Vec::new();
    std::fs::File::from(reader).read_to_end(&mut bytes).unwrap();
    feeder.join().unwrap();
    assert!(end_of(running).success());
    assert!(bytes == big());
    assert!(std::fs::read(dir.path().join("a")).unwrap() == big());
}

/// A network file system may say only then that a write has failed.
#[test]
fn an_error_at_closing_is_an_error() {
    if !has_program("strace") {
        return;
    }
    let strace = "strace -qq -o /dev/null -e trace=close -e inject=close:error=EIO";
    let closing =
        |path: &str, command: &str| as_new_gnu(&format!("{strace} -P $PWD/{path} {command}"));
    let outcome = closing("a", "tee a b < f");
    outcome.fails_after("hi\n", "tee: a: Input/output error\n");
    assert_eq!(outcome.files["b"], b"hi\n");
    closing("a", "tee --output-error=exit a b < f")
        .fails_after("hi\n", "tee: a: Input/output error\n");
    closing("out", "tee a < f > out").fails_with("tee: write error: Input/output error\n");
    closing("f", "tee a < f").fails_after("hi\n", "tee: standard input: Input/output error\n");
}
