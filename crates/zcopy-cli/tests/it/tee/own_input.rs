//! An output that is the very file that standard input comes from.

use super::{as_gnu, run};
use crate::script::big;

#[test]
fn a_file_that_is_written_anew_has_nothing_to_give() {
    let outcome = as_gnu("tee f < f");
    outcome.succeeds_with("");
    assert_eq!(outcome.files["f"], b"");
}

/// GNU tee fills the disk.
#[test]
fn a_file_is_not_appended_to_itself() {
    for name in ["f", "big"] {
        let before = run("true").files[name].clone();
        let outcome = run(&format!("tee -a a {name} b < {name}"));
        outcome.fails_after(
            &before,
            &format!("tee: {name}: input file is output file\n"),
        );
        for output in [name, "a", "b"] {
            assert!(outcome.files[output] == before, "{output} of {name}");
        }
    }
    run("tee < f >> f").fails_with("tee: 'standard output': input file is output file\n");
    let outcome = run("tee --output-error=exit -a f a < f");
    outcome.fails_with("tee: f: input file is output file\n");
}

#[test]
fn a_file_may_be_rewritten_in_place() {
    for name in ["f", "big"] {
        let outcome = as_gnu(&format!("tee a < {name} 1<> {name}"));
        outcome.succeeds_with("");
        assert!(outcome.files["a"] == outcome.files[name]);
        assert!(outcome.files[name] == run("true").files[name]);
    }
}

#[test]
fn a_file_may_be_shifted_down_within_itself() {
    let outcome = run("{ dd bs=1 count=8 of=/dev/null 2>&-; tee a; } < big 1<> big");
    let tail = &big()[big().len() - 8..];
    assert!(outcome.files["big"] == [&big()[8..], tail].concat());
    assert!(outcome.files["a"] == big()[8..]);
}

#[test]
fn an_empty_file_may_be_appended_to_itself() {
    as_gnu("tee -a empty < empty").succeeds_with("");
    as_gnu("{ cat; tee -a f; } < f").succeeds_with("hi\n");
}

/// GNU tee would go round for ever.
#[test]
fn a_pipe_is_not_fed_to_itself() {
    run("mkfifo p; exec 3<> p; cat f >&3; timeout 60 tee <&3 >&3")
        .fails_with("tee: 'standard output': input file is output file\n");
}
