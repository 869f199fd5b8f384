//! Standard descriptors that are closed, full, or open the wrong way.

use crate::script::as_gnu;

#[test]
fn closed_output_is_an_error_before_any_operand() {
    as_gnu("cat f missing >&-").fails_with("cat: standard output: Bad file descriptor\n");
}

#[test]
fn closed_output_is_not_taken_for_the_first_file_opened() {
    // Were descriptor 1 free, `f` itself would come to stand there.
    let outcome = as_gnu("cat big f >&-");
    assert_eq!(outcome.files["f"], b"hi\n");
}

#[test]
fn closed_input_is_an_error_where_it_is_read() {
    let errors = "cat: -: Bad file descriptor\ncat: closing standard input: Bad file descriptor\n";
    as_gnu("cat <&-").fails_with(errors);
    as_gnu("cat f - g <&-").fails_after("hi\nthere\n", errors);
}

#[test]
fn closed_input_cannot_be_opened_by_its_name() {
    as_gnu("cat /dev/fd/0 <&-").fails_with("cat: /dev/fd/0: No such file or directory\n");
}

#[test]
fn a_full_device_is_a_write_error_and_ends_it() {
    let error = "cat: write error: No space left on device\n";
    as_gnu("cat f missing > /dev/full").fails_with(error);
    as_gnu("cat big > /dev/full").fails_with(error);
    as_gnu("cat f | cat > /dev/full").fails_with(error);
}

#[test]
fn output_that_is_open_for_reading_is_a_write_error() {
    let error = "cat: write error: Bad file descriptor\n";
    as_gnu("cat f g 1< big").fails_with(error);
    as_gnu("cat f 1< dir").fails_with(error);
}

/// Who has nothing to write never learns what is wrong with the output.
#[test]
fn output_that_is_open_for_reading_does_not_matter_to_who_writes_nothing() {
    for script in [
        "cat empty 1< f",
        "cat < /dev/null 1< f",
        "cat empty - empty 1< dir",
        "printf '' | cat 1< f",
        "{ read line; cat; } < g 1< f",
        "cat /dev/null 1< /dev/null",
    ] {
        as_gnu(script).succeeds_with("");
    }
    let error = "cat: write error: Bad file descriptor\n";
    as_gnu("cat empty g missing 1< f").fails_with(error);
    as_gnu("printf x | cat 1< f").fails_with(error);
    as_gnu("cat /proc/version 1< f").fails_with(error);
}

#[test]
fn input_that_cannot_be_read_comes_before_output_that_cannot_be_written() {
    as_gnu("cat /proc/self/mem 1< f").fails_with("cat: /proc/self/mem: Input/output error\n");
    as_gnu("cat dir missing empty 1< f")
        .fails_with("cat: dir: Is a directory\ncat: missing: No such file or directory\n");
    as_gnu("cat - 0>> g 1< f").fails_with("cat: -: Bad file descriptor\n");
}

#[test]
fn input_that_is_open_for_writing_is_a_read_error() {
    as_gnu("cat - f 0>> g").fails_after("hi\n", "cat: -: Bad file descriptor\n");
}
