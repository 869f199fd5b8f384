//! `zc-dircopy`.

use crate::programs::Program;
use crate::scenario::tree::archive::{
    LastRun, ROTTEN, SPOILED, SPOILED_MESSAGE, check_archive, check_interrupted_archive,
    check_strictly_verified_archive, check_verified_archive, make_archive,
    make_interrupted_archive, strictly_verified_lines, verified_lines,
};
use crate::scenario::tree::{
    OTHER_COPY, check_bag, check_copy, check_copy_and_sums, check_damaged, check_destinations,
    check_history, check_replaced_copy_and_sums, check_resumed, check_whole, damaged_lines,
    make_begun_copy, make_damaged_copy, make_source, make_source_and_old_copy, make_summed_copy,
};
use crate::scenario::{Check, Scenario, Stdout};

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
    for (format, check) in [
        ("--manifest=bagit", check_bag as Check),
        ("--manifest=ascmhl", check_history),
    ] {
        let copy = dircopy(&["-q", "-L", format, "source", "copy"]).collects(Stdout::Pipe);
        scenarios.push(copy.prepare(make_source).check_even_killed(check));
    }
    for options in [
        &[][..],
        &["--durable", "-j1"],
        &["--verify=both", "--no-hash-skipped"],
    ] {
        let several = ["-i", "source", "-o", "copy", "-o", OTHER_COPY];
        let copy = dircopy(&[&["-q", "-L"], options, &several].concat());
        let copy = copy.collects(Stdout::Pipe).prepare(make_source);
        scenarios.push(copy.check_even_killed(check_destinations));
    }
    // Runs that go on inside a file that a killed run has begun.
    for options in [
        &["-q", "--resume", "source", "copy"][..],
        &["-q", "--resume", "--durable", "-j1", "source", "copy"],
        &[
            "-q",
            "--resume",
            "--verify",
            "--skip-errors",
            "source",
            "copy",
        ],
    ] {
        let resumed = dircopy(options).collects(Stdout::Pipe);
        scenarios.push(
            resumed
                .prepare(make_begun_copy)
                .check_even_killed(check_resumed),
        );
    }
    scenarios.extend(archives());
    scenarios
}

/// Copies to an archive that earlier runs have filled, and checks of it.
fn archives() -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    // These runs read a file that differs from its record.
    for options in [&[][..], &["--durable"], &["-j1"]] {
        scenarios.push(archive(options).fails(String::new(), SPOILED_MESSAGE));
    }
    for options in [
        &["--no-hash-skipped"][..],
        &["--overwrite-policy=update"],
        &["--no-hash-skipped", "--forget-missing"],
        &["--accept", SPOILED, "--accept", ROTTEN],
        &["--no-hash"],
    ] {
        scenarios.push(archive(options));
    }
    let interrupted = interrupted_archive(&[]);
    scenarios.push(interrupted.fails(String::new(), SPOILED_MESSAGE));
    for options in [&["--no-hash-skipped"][..], &["--overwrite-policy=update"]] {
        scenarios.push(interrupted_archive(options));
    }
    let check = |options: &[&'static str], check, lines| {
        let args = [&["--check", "--no-summary"], options, &["copy"]].concat();
        let check = dircopy(&args).check(check).collects(Stdout::Pipe);
        let check = check.archive(LastRun::Killed);
        let check = check.prepare(make_interrupted_archive);
        check.fails(
            lines,
            "zc-dircopy: copy/a/gone: No such file or directory\n",
        )
    };
    scenarios.push(check(&[], check_verified_archive, verified_lines()));
    scenarios.push(check(
        &["--strict"],
        check_strictly_verified_archive,
        strictly_verified_lines(),
    ));
    scenarios
}

/// A copy to an archive.
fn archive(options: &[&'static str]) -> Scenario {
    let args = [&["-q"], options, &["source", "copy"]].concat();
    let copy = dircopy(&args).collects(Stdout::Pipe);
    let copy = copy.archive(LastRun::Finished).prepare(make_archive);
    copy.check_even_killed(check_archive)
}

/// A copy to an archive after a run that was killed.
fn interrupted_archive(options: &[&'static str]) -> Scenario {
    let copy = archive(options).archive(LastRun::Killed);
    copy.prepare(make_interrupted_archive)
        .check_even_killed(check_interrupted_archive)
}
