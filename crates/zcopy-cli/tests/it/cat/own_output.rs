//! Input that is the file that output goes to: refused if it would grow for ever, and only then.

use crate::script::{as_gnu, big, run};

#[test]
fn a_file_is_not_appended_to_itself() {
    let outcome = as_gnu("cat f >> f");
    outcome.fails_with("cat: f: input file is output file\n");
    assert_eq!(outcome.files["f"], b"hi\n");
}

#[test]
fn large_files_are_not_appended_to_themselves_either() {
    let outcome = as_gnu("cat big >> big");
    outcome.fails_with("cat: big: input file is output file\n");
    assert!(outcome.files["big"] == big());
}

#[test]
fn the_other_operands_have_their_turn() {
    let outcome = as_gnu("cat f g - >> f < empty");
    outcome.fails_with("cat: f: input file is output file\n");
    assert_eq!(outcome.files["f"], b"hi\nthere\n");
}

#[test]
fn standard_input_is_named_by_its_dash() {
    as_gnu("cat < f >> f").fails_with("cat: -: input file is output file\n");
}

#[test]
fn what_the_output_has_grown_by_counts() {
    // `f` is empty when it is opened, and holds what `g` held when it is its turn.
    let outcome = as_gnu("cat g f > f");
    outcome.fails_with("cat: f: input file is output file\n");
    assert_eq!(outcome.files["f"], b"there\n");
}

#[test]
fn an_empty_file_may_be_appended_to_itself() {
    as_gnu("cat empty >> empty").succeeds_with("");
    as_gnu("cat f > f").succeeds_with("");
}

#[test]
fn a_cursor_at_the_end_is_fine() {
    let outcome = as_gnu("{ read line; cat >> f; } < f");
    outcome.succeeds_with("");
    assert_eq!(outcome.files["f"], b"hi\n");
}

/// As GNU cat 9.12 does; 9.1, which may be the one installed, refuses it.
#[test]
fn a_file_may_be_rewritten_in_place() {
    let outcome = run("cat big 1<> big");
    outcome.succeeds_with("");
    assert!(outcome.files["big"] == big());
}

/// As above.
#[test]
fn a_file_may_be_shifted_down_within_itself() {
    let outcome = run("{ dd bs=1 count=8 of=/dev/null 2>&-; cat; } < big 1<> big");
    outcome.succeeds_with("");
    let tail = &big()[big().len() - 8..];
    assert!(outcome.files["big"] == [&big()[8..], tail].concat());
}

/// As above: where nothing can be written, GNU cat 9.12 does not ask whose file it is.
#[test]
fn a_file_that_is_open_for_reading_alone_is_not_fed_to_itself() {
    run("cat f 1< f").fails_with("cat: write error: Bad file descriptor\n");
    as_gnu("cat empty 1< empty").succeeds_with("");
}

#[test]
fn a_pipe_is_not_fed_to_itself() {
    // GNU cat would go round for ever.
    run("mkfifo p; exec 3<> p; cat f >&3; timeout 60 cat <&3 >&3")
        .fails_with("cat: -: input file is output file\n");
}
