//! Standard descriptors that are closed, full, or open the wrong way; outputs that do not block;
//! what `close(2)` says.

use crate::script::TEE;
use crate::skip::has_program;

const CLOSED_OUTPUT: &str = "tee: 'standard output': Bad file descriptor\n";
const CLOSED_INPUT: &str =
    "tee: read error: Bad file descriptor\ntee: standard input: Bad file descriptor\n";

#[test]
fn closed_output_is_an_error_and_the_files_are_written() {
    for mode in ["", "-p", "--output-error=warn"] {
        let outcome = TEE.as_peers(&format!("tee {mode} a b < f >&-"));
        outcome.fails_with(CLOSED_OUTPUT);
        assert_eq!(outcome.files["a"], b"hi\n");
        assert_eq!(outcome.files["b"], b"hi\n");
        TEE.as_peers(&format!("cat big | tee {mode} a b >&-"))
            .fails_with(CLOSED_OUTPUT);
        TEE.as_peers(&format!("tee {mode} < f >&-"))
            .fails_with(CLOSED_OUTPUT);
    }
}

#[test]
fn closed_output_ends_the_modes_that_exit_before_a_byte_is_written() {
    for mode in ["exit", "exit-nopipe"] {
        let outcome = TEE.as_peers(&format!("tee --output-error={mode} a < f >&-"));
        outcome.fails_with(CLOSED_OUTPUT);
        assert_eq!(outcome.files["a"], b"");
    }
}

#[test]
fn closed_output_does_not_matter_to_who_has_nothing_to_write() {
    for mode in ["", "-p", "--output-error=exit"] {
        TEE.as_peers(&format!("tee {mode} a < empty >&-"))
            .succeeds_with("");
        TEE.as_peers(&format!("tee {mode} < empty >&-"))
            .succeeds_with("");
    }
}

#[test]
fn output_that_is_open_for_reading_is_as_good_as_closed() {
    for target in ["1< g", "1< dir"] {
        let outcome = TEE.as_peers(&format!("tee a < f {target}"));
        outcome.fails_with(CLOSED_OUTPUT);
        assert_eq!(outcome.files["a"], b"hi\n");
    }
}

#[test]
fn an_error_of_another_output_comes_after_that_of_closed_output() {
    TEE.as_peers("tee /dev/full < f >&-").fails_with(&format!(
        "{CLOSED_OUTPUT}tee: /dev/full: No space left on device\n"
    ));
}

#[test]
fn closed_input_is_a_read_error() {
    let outcome = TEE.as_peers("tee g a <&-");
    outcome.fails_with(CLOSED_INPUT);
    assert_eq!(
        (&outcome.files["g"][..], &outcome.files["a"][..]),
        (&b""[..], &b""[..])
    );
    TEE.as_peers("tee <&-").fails_with(CLOSED_INPUT);
    TEE.as_peers("tee -p a <&- >&-").fails_with(CLOSED_INPUT);
    TEE.as_peers("tee --output-error=exit a <&- >&-")
        .fails_with(CLOSED_INPUT);
}

#[test]
fn a_closed_descriptor_cannot_be_opened_by_its_name() {
    TEE.as_peers("tee /dev/fd/1 a < f >&-").fails_with(&format!(
        "tee: /dev/fd/1: No such file or directory\n{CLOSED_OUTPUT}"
    ));
}

#[test]
fn a_directory_and_input_that_is_open_for_writing_are_read_errors() {
    TEE.as_peers("tee a < dir")
        .fails_with("tee: read error: Is a directory\n");
    TEE.as_peers("tee < dir")
        .fails_with("tee: read error: Is a directory\n");
    TEE.as_peers("tee a 0>> g")
        .fails_with("tee: read error: Bad file descriptor\n");
    // Nothing is mapped at address 0.
    TEE.as_peers("tee a < /proc/self/mem")
        .fails_with("tee: read error: Input/output error\n");
}

/// A network file system may say only then that a write has failed.
#[test]
fn an_error_at_closing_is_an_error() {
    if !has_program("strace") {
        return;
    }
    let strace = "strace -qq -o /dev/null -e trace=close -e inject=close:error=EIO";
    let closing = |path: &str, command: &str| {
        TEE.as_newest_peer(&format!("{strace} -P $PWD/{path} {command}"))
    };
    let outcome = closing("a", "tee a b < f");
    outcome.fails_after("hi\n", "tee: a: Input/output error\n");
    assert_eq!(outcome.files["b"], b"hi\n");
    closing("a", "tee --output-error=exit a b < f")
        .fails_after("hi\n", "tee: a: Input/output error\n");
    closing("out", "tee a < f > out").fails_with("tee: write error: Input/output error\n");
    closing("f", "tee a < f").fails_after("hi\n", "tee: standard input: Input/output error\n");
}
