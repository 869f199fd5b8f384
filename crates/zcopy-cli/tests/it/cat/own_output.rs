//! Input that is the file that output goes to: refused if it would grow for ever, and only then.

use crate::script::{as_gnu, run};

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
fn a_cursor_at_the_end_is_fine() {
    let outcome = as_gnu("{ read line; cat >> f; } < f");
    outcome.succeeds_with("");
    assert_eq!(outcome.files["f"], b"hi\n");
}

/// Where nothing can be written, GNU cat 9.12 does not ask whose file it is.
#[test]
fn a_file_that_is_open_for_reading_alone_is_not_fed_to_itself() {
    run("cat f 1< f").fails_with("cat: write error: Bad file descriptor\n");
    as_gnu("cat empty 1< empty").succeeds_with("");
}
