//! An input that is the output: refused, in every way it can come about, and left as it is.

use super::{as_pv, ends, run};

const F: &str = "pv: f: input file is also the output\n";
const STDIN: &str = "pv: -: input file is also the output\n";

#[test]
fn a_file_is_not_rewritten_in_place() {
    let outcome = as_pv("pv -q f 1<> f");
    ends(&outcome, 4, F, "");
    assert_eq!(outcome.files["f"], b"hi\n");
    ends(&as_pv("pv -q < f 1<> f"), 4, STDIN, "");
    ends(
        &as_pv("ln -s f l; pv -q l 1<> f"),
        4,
        "pv: l: input file is also the output\n",
        "",
    );
}

#[test]
fn an_empty_file_is_told_as_well() {
    ends(&as_pv("pv -q f > f"), 4, F, "");
    let error = "pv: empty: input file is also the output\n";
    ends(&as_pv("pv -q empty >> empty"), 4, error, "");
}

#[test]
fn the_other_inputs_have_their_turn() {
    let outcome = as_pv("pv -q g f g >> f");
    ends(&outcome, 4, F, "");
    assert_eq!(outcome.files["f"], b"hi\nthere\nthere\n");
}

/// pv has emptied it by then.
#[test]
fn an_input_that_is_named_as_the_output_is_not_destroyed() {
    for script in [
        "pv -q -o f f g",
        "pv -q -o f g f",
        "ln f l; pv -q -o l f",
        "ln -s f l; pv -q --output=l g f",
        "pv -q -o f ./f",
        "pv -q -O -K -o f f",
        "pv -q -U - -o f f",
    ] {
        let outcome = run(script);
        assert_eq!(outcome.status, 4, "{script}");
        assert!(outcome.stderr.ends_with("input file is also the output\n"));
        assert_eq!(outcome.files["f"], b"hi\n", "{script}");
    }
    let outcome = run("pv -q -o f < f");
    ends(&outcome, 4, STDIN, "");
    assert_eq!(outcome.files["f"], b"hi\n");
}

/// So has pv that one.
#[test]
fn an_input_that_is_named_as_the_spool_is_not_destroyed() {
    let outcome = run("pv -q -U f f g");
    ends(&outcome, 4, F, "");
    assert_eq!(outcome.files["f"], b"hi\n");
    let outcome = run("pv -q -U f g < f - ");
    ends(&outcome, 4, STDIN, "");
    assert_eq!(outcome.files["f"], b"hi\n");
}

#[test]
fn a_spool_that_is_the_output_is_told() {
    let error = "pv: s: input file is also the output\n";
    ends(&as_pv("pv -q -U s f > s"), 4, error, "");
}

#[test]
fn a_device_that_is_no_disk_may_be_both() {
    as_pv("pv -q /dev/null > /dev/null").succeeds_with("");
    as_pv("pv -q -o /dev/null /dev/null").succeeds_with("");
}
