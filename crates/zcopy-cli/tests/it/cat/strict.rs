//! `--strict`: all or nothing.

use crate::script::{big, run};

#[test]
fn nothing_is_written_if_one_operand_cannot_be_read() {
    run("cat --strict f missing g dir")
        .fails_with("cat: missing: No such file or directory\ncat: dir: Is a directory\n");
    run("cat --strict -n f missing").fails_with("cat: missing: No such file or directory\n");
    run("cat --strict f - <&-").fails_with("cat: -: Bad file descriptor\n");
    run("cat --strict f - < dir").fails_with("cat: -: Is a directory\n");
}

#[test]
fn everything_is_written_if_all_can_be_read() {
    run("cat --strict f - g f < big").succeeds_with([b"hi\n", &big()[..], b"there\nhi\n"].concat());
    run("cat --strict < f").succeeds_with("hi\n");
    run("cat --strict -n f g").succeeds_with("     1\thi\n     2\tthere\n");
    run("cat --strict /proc/version > out && cmp out /proc/version").succeeds_with("");
}

#[test]
fn the_output_among_the_operands_is_found_beforehand() {
    let outcome = run("cat --strict f g >> g");
    outcome.fails_with("cat: g: input file is output file\n");
    assert_eq!(outcome.files["g"], b"there\n");
}

#[test]
fn what_was_opened_beforehand_is_what_is_copied() {
    // By the time that the FIFO is opened, everything has been.
    let script = "mkfifo p; cat --strict p f & exec 3> p; printf other > new; mv new f; printf one >&3; exec 3>&-; wait";
    run(script).succeeds_with("onehi\n");
}

#[test]
fn fifos_are_opened_in_turn_so_that_one_writer_can_serve_them_all() {
    run("mkfifo p q; { printf one > p; printf two > q; } & cat --strict p q; wait")
        .succeeds_with("onetwo");
}

#[test]
fn a_fifo_that_may_not_be_read_is_found_beforehand() {
    run("mkfifo p; cat --strict f p/q").fails_with("cat: p/q: Not a directory\n");
}

#[test]
fn more_operands_than_descriptors_may_be_open_at_first() {
    run("for n in $(seq 300); do printf x > x$n; done; ulimit -Sn 100; cat --strict x*")
        .succeeds_with("x".repeat(300));
}
