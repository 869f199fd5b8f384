//! `zc-dircopy`.

use crate::programs::Program;
use crate::scenario::tree::{
    check_copy, check_copy_and_sums, make_damaged_copy, make_source, make_source_and_old_copy,
    make_summed_copy,
};
use crate::scenario::{Observed, Scenario};

/// The program with these arguments.
fn dircopy(args: &[&'static str]) -> Scenario {
    Scenario::new(Program::Tool("zc-dircopy"), args)
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for options in [
        &["-q", "source", "copy"][..],
        &["-q", "-j1", "source", "copy"],
        &["--durable", "source", "copy"],
        &["--verify", "source", "copy"],
        &["--lanes", "always", "source", "copy"],
    ] {
        let copy = dircopy(options).prepare(make_source);
        scenarios.push(copy.check(check_copy_and_sums));
    }
    let unsummed = dircopy(&["--no-hash", "source", "copy"]);
    scenarios.push(unsummed.prepare(make_source).check(check_copy));
    for options in [
        &["-q", "source", "copy"][..],
        &[
            "--overwrite-policy",
            "update",
            "--verify-existing",
            "source",
            "copy",
        ],
    ] {
        let copy = dircopy(options).prepare(make_source_and_old_copy);
        scenarios.push(copy.check(check_copy_and_sums));
    }
    let check = || dircopy(&["--check", "copy"]);
    scenarios.push(
        check()
            .prepare(make_summed_copy)
            .check(names_no_whole_file_as_damaged),
    );
    scenarios.push(
        check()
            .prepare(make_damaged_copy)
            .check(finds_the_damage)
            .fails(),
    );
    scenarios
}

/// A file that could not be read is no file with another digest.
fn names_no_whole_file_as_damaged(_: &Scenario, observed: &Observed) -> Vec<String> {
    let output = observed.stderr.lines();
    let damaged = output.filter(|line| line.ends_with(": FAILED"));
    damaged
        .map(|line| format!("a whole file is called damaged: {line}"))
        .collect()
}

/// A run that fails says so; one that calls everything whole is wrong.
fn finds_the_damage(_: &Scenario, observed: &Observed) -> Vec<String> {
    if observed.status.is_some_and(|status| status.success()) {
        return vec!["the damage was not found".to_owned()];
    }
    Vec::new()
}
