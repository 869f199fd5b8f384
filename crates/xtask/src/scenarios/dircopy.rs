//! `zc-dircopy`.

use crate::programs::Program;
use crate::scenario::tree::{
    check_copy, check_copy_and_sums, check_damaged, check_replaced_copy_and_sums, check_whole,
    damaged_lines, make_damaged_copy, make_source, make_source_and_old_copy, make_summed_copy,
};
use crate::scenario::{Scenario, Stdout};

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
        let copy = dircopy(options).collects(Stdout::Pipe);
        scenarios.push(copy.prepare(make_source).check(check_copy_and_sums));
    }
    let unsummed = dircopy(&["--no-hash", "source", "copy"]).collects(Stdout::Pipe);
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
        let copy = dircopy(options).collects(Stdout::Pipe);
        let copy = copy.prepare(make_source_and_old_copy);
        scenarios.push(copy.check(check_replaced_copy_and_sums));
    }
    let check = dircopy(&["--check", "copy"]).collects(Stdout::Pipe);
    scenarios.push(check.prepare(make_summed_copy).check(check_whole));
    // Without the total, which has times, both outputs are the same in every run.
    let check = dircopy(&["--check", "--no-summary", "copy"]).collects(Stdout::Pipe);
    scenarios.push(
        check
            .prepare(make_damaged_copy)
            .check(check_damaged)
            .fails(damaged_lines(), ""),
    );
    scenarios
}
