//! `--strict`: all or nothing.

use crate::script::{big, run};
use crate::skip::has_program;

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
    for (script, left) in [
        ("cat --strict f g >> g", "there\n"),
        ("cat --strict f g 1<> g", "there\n"),
        ("cat --strict -n f g 1<> g", "there\n"),
        ("cat --strict -n g 1<> g", "there\n"),
        ("cp empty g; cat --strict f g >> g", ""),
    ] {
        let outcome = run(script);
        outcome.fails_with("cat: g: input file is output file\n");
        assert_eq!(outcome.files["g"], left.as_bytes(), "{script}");
    }
    run("cat --strict g 1<> g").succeeds_with("");
    run("cat --strict empty >> empty").succeeds_with("");
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
    if !has_program("setpriv") {
        return;
    }
    // Root may read everything, unless it is without these.
    let script = "mkfifo -m 0 p; \
        [ $(id -u) = 0 ] && as='setpriv --bounding-set=-dac_override,-dac_read_search'; \
        $as cat --strict f p";
    run(script).fails_with("cat: p: Permission denied\n");
}

#[test]
fn more_operands_than_descriptors_may_be_open_at_first() {
    run("for n in $(seq 300); do printf x > x$n; done; ulimit -Sn 100; cat --strict x*")
        .succeeds_with("x".repeat(300));
}
