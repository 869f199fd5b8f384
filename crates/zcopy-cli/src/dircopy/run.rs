//! Runs `zc-dircopy`: copies a tree, or verifies trees.
//!
//! - `copy_tree`: copies a tree with several threads; `lock`: one run at a time.
//! - `several`: copies a tree to several destinations; `distinct`: compares these.
//! - `delete`: `--delete`.
//! - `dry_run`: `--dry-run`.
//! - `free_space`: finds out whether a copy has room.
//! - `manifest`: begins and finishes the manifest; `write_back`: reports writes that fail late.
//! - `check`: `--check`; `amend` and `accepted_maps`: change records without a copy.

use std::time::Instant;

use anyhow::Context as _;
use clap::ArgMatches;
use rustix::fs::Mode;

use super::args::Args;
use super::counts::Counts;
use super::hash::null::open_null;
use super::interrupt::{self, Interrupt};
use super::reporter::{Reporter, Verbosity};
use super::schedule::fd_budget::{Descriptors, FdBudget};
use super::settings::Settings;
use crate::common::cli::message;
use crate::common::sys;
use copy_tree::{Context, Opened, copy_tree};

mod accepted_maps;
mod amend;
mod check;
mod copy_tree;
mod delete;
mod distinct;
mod dry_run;
mod free_space;
mod lock;
mod manifest;
mod several;
mod write_back;

/// The status after a usage error.
pub const MISUSE: u8 = 2;

/// The result of a run. Every error has been reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every file was copied or verified.
    Complete,
    /// Something could not be copied or verified.
    Incomplete,
    /// The command line is wrong.
    Misused,
}

/// Copies a tree, or with `--check` verifies trees. `matches` hold the order of the options.
#[must_use]
pub fn run(args: &Args, matches: &ArgMatches) -> Outcome {
    if args.check {
        return check::verify(args);
    }
    let settings = Settings::of(args, matches, current_umask());
    let settings = settings.and_then(|settings| {
        if settings.len() > 1 {
            distinct::check_paths(&settings)?;
        }
        Ok(settings)
    });
    let copied = match settings {
        Err(message) => return misused(&message),
        Ok(settings) => match <[Settings; 1]>::try_from(settings) {
            Ok([settings]) => copy(settings, args.verbosity()),
            Err(several) => several::copy(several, args.verbosity()),
        },
    };
    copied.unwrap_or_else(|error| {
        message::error(&error);
        Outcome::Incomplete
    })
}

/// Reports a wrong command line.
fn misused(message: &str) -> Outcome {
    message::warn(message);
    message::refer_to_help();
    Outcome::Misused
}

/// Copies a tree, and writes the summary.
///
/// # Errors
///
/// The copy cannot begin, or the summary cannot be written. Every other error has been reported.
fn copy(settings: Settings, verbosity: Verbosity) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    sys::hold_closed_descriptors()?;
    let budget = FdBudget::of(Descriptors::of_process());
    // A reader that closes the pipe does not end the copy.
    sys::ignore_sigpipe();
    let counts = Counts::default();
    let reporter = match Reporter::new(verbosity, &counts) {
        Ok(reporter) => reporter,
        // It fails too if there are too few descriptors.
        Err(error) => {
            budget?;
            return Err(error.into());
        }
    };
    let interrupt = Interrupt::default();
    let begun = budget
        .map_err(anyhow::Error::from)
        .and_then(|budget| Ok((budget, open_null()?)));
    let (budget, null) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            reporter.report_run_error(&error);
            return end_early(&reporter, started, &interrupt);
        }
    };
    let context = Context {
        reporter: &reporter,
        counts: &counts,
        interrupt: &interrupt,
        budget,
        null: &null,
        part: None,
    };
    if settings.is_dry_run {
        let Ok(plan) = dry_run::plan(settings, context) else {
            return end_early(&reporter, started, &interrupt);
        };
        reporter
            .tell_totals(plan)
            .and_then(|()| sys::close_stdout())
            .context("write error")?;
        return Ok(outcome(&counts));
    }
    let opened = Opened::new(settings, &reporter);
    let Ok(manifests) = opened.and_then(|opened| copy_tree(opened, context)) else {
        return end_early(&reporter, started, &interrupt);
    };
    if let Some(signal) = interrupt.signal() {
        reporter.report_interrupt(interrupt::name(signal));
    }
    reporter
        .summarize(started.elapsed(), &manifests, reporter.state(&interrupt))
        .and_then(|()| sys::close_stdout())
        .context("write error")?;
    if let Some(signal) = interrupt.signal() {
        // The exit status tells the parent process which signal it was.
        sys::raise_default(signal);
        return Ok(Outcome::Incomplete);
    }
    Ok(outcome(&counts))
}

fn outcome(counts: &Counts) -> Outcome {
    if counts.has_errors() {
        Outcome::Incomplete
    } else {
        Outcome::Complete
    }
}

/// Ends a run that copied nothing. Its error has been reported.
fn end_early(
    reporter: &Reporter<'_>,
    started: Instant,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    reporter
        .summarize_failure(started.elapsed(), reporter.state(interrupt))
        .and_then(|()| sys::close_stdout())
        .context("write error")?;
    if let Some(signal) = interrupt.signal() {
        sys::raise_default(signal);
    }
    Ok(Outcome::Incomplete)
}

/// The process's umask. Call it before other threads create files: it clears the mask for a moment.
fn current_umask() -> Mode {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask
}
