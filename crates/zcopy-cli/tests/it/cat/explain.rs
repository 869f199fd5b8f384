//! `--explain`, and what it tells of `--stable`.

use zcopy::Strategy;

use crate::refused::first_allowed;
use crate::script::{Outcome, big, run};

/// The strategy on the line that names the chosen one.
fn chosen(outcome: &Outcome) -> Vec<&str> {
    let lines = outcome.stderr.lines();
    lines
        .filter_map(|line| line.trim_start().strip_prefix("chosen "))
        .filter_map(|rest| rest.split_whitespace().next())
        .collect()
}

#[test]
fn plan_and_report_of_each_operand_go_to_standard_error() {
    let outcome = run("cat --explain f g");
    outcome.printed("hi\nthere\n");
    assert_eq!(outcome.status, 0);
    let said: Vec<usize> = [
        "cat: f: regular file",
        "cat: f: 3 bytes by buffered",
        "cat: g: regular file",
        "cat: g: 6 bytes by buffered",
    ]
    .iter()
    .map(|line| outcome.stderr.find(line).expect(line))
    .collect();
    assert!(said.is_sorted(), "{}", outcome.stderr);
    assert_eq!(chosen(&outcome), ["buffered", "buffered"]);
}

#[test]
fn a_large_file_goes_to_a_pipe_without_passing_user_space() {
    let outcome = run("cat --explain big | wc -c");
    outcome.printed(format!("{}\n", big().len()));
    assert_eq!(chosen(&outcome), ["splice"]);
    let strategy = first_allowed(&[Strategy::Splice, Strategy::Sendfile]);
    let moved = format!("cat: big: {} bytes by {strategy}", big().len());
    assert!(outcome.stderr.contains(&moved), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("pages: shared"));
}

#[test]
fn stable_copies_what_could_still_change() {
    let outcome = run("cat --explain --stable big | wc -c");
    outcome.printed(format!("{}\n", big().len()));
    assert_eq!(chosen(&outcome), ["buffered"]);
    assert!(
        !outcome.stderr.contains("pages: shared"),
        "{}",
        outcome.stderr
    );
}

/// A pipe may hold pages of a file that somebody spliced into it.
#[test]
fn stable_copies_what_a_pipe_holds() {
    for (option, is_shared) in [("", true), ("--stable", false)] {
        let outcome = run(&format!("cat big | cat --explain {option} | wc -c"));
        outcome.printed(format!("{}\n", big().len()));
        let said = "pages: shared with the source pipe or socket";
        assert_eq!(
            outcome.stderr.contains(said),
            is_shared,
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn what_was_done_before_a_failure_is_explained_too() {
    let outcome = run("cat --explain f > /dev/full");
    assert_eq!(outcome.status, 1);
    let (report, error) = ("cat: f: 0 bytes by", "cat: write error: No space left");
    assert!(outcome.stderr.find(report).unwrap() < outcome.stderr.find(error).unwrap());
}

#[test]
fn an_operand_that_cannot_be_opened_has_its_message_alone() {
    run("cat --explain missing").fails_with("cat: missing: No such file or directory\n");
    run("cat --explain dir").fails_with("cat: dir: Is a directory\n");
    run("cat --explain f >> f").fails_with("cat: f: input file is output file\n");
}

#[test]
fn rewriting_in_place_is_explained() {
    let outcome = run("cat --explain big 1<> big");
    assert_eq!((chosen(&outcome), outcome.status), (vec!["buffered"], 0));
    assert!(outcome.files["big"] == big());
}
