//! `zc-dircopy`: copies a tree, file by file, and records the digests of all files.
//!
//! Every file is opened by its name in an open directory, never by a path. So nothing outside of the
//! two trees is read or written, even if another process renames or replaces directories during the
//! run. Names are bytes.
//!
//! One thread at a time walks the source. `--jobs` threads copy files, and others hash them. The
//! ledger takes the results in the order of the tree. So the manifest is sorted, and a hard link is
//! made after the file that it links to.
//!
//! - `run`: copies a tree, or verifies trees with `--check`.
//! - `args` and `settings`: the command line.
//! - `finisher`: writes lines of the manifest and makes hard links, in the order of the tree.
//! - [`copy`]: copies or leaves one entry.
//! - `schedule`: divides the tree into jobs, and the descriptors among the threads.
//! - `reporter`: writes messages, the progress and the summary.
//! - `folded_names`: names that the destination does not tell apart.
//! - [`manifest`]: reads, writes and verifies lists of digests.
//! - [`walk`]: walks the source and mirrors its directories.
//! - `hash`: reads and hashes files.
//! - [`write`]: creates files, and sets their metadata.
//! - `damage_map`: which bytes of a damaged file are missing.
//! - `interrupt`: signals that end a run early; `stop_flag`: stops the threads beside the copy.
//! - `stat` and `mtime`: file types, permissions and times of `stat(2)`.

use std::fs::File;
use std::time::Instant;

use anyhow::Context as _;
use rustix::fs::Mode;

pub use args::Args;

use counts::Counts;
use interrupt::Interrupt;
use reporter::{Reporter, Verbosity};
use run::copy_tree::{Context, copy_tree};
use schedule::fd_budget::{Descriptors, FdBudget};
use settings::Settings;

use crate::{exit, sys};

pub mod copy;
pub mod manifest;
pub mod walk;
pub mod write;

mod args;
mod counts;
mod damage_map;
mod finisher;
mod folded_names;
mod hash;
mod interrupt;
mod mtime;
mod reporter;
mod run;
mod schedule;
mod settings;
mod stat;
mod stop_flag;

#[cfg(test)]
mod test_support;

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

/// Copies a tree, or with `--check` verifies trees.
#[must_use]
pub fn run(args: &Args) -> Outcome {
    if args.check {
        return run::check::verify(args);
    }
    let settings = match Settings::of(args, current_umask()) {
        Ok(settings) => settings,
        Err(message) => {
            exit::say(&message);
            exit::refer_to_help();
            return Outcome::Misused;
        }
    };
    copy(settings, args.verbosity()).unwrap_or_else(|error| {
        exit::complain(&error);
        Outcome::Incomplete
    })
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
    let begun = budget.map_err(anyhow::Error::from).and_then(|budget| {
        let null = File::options().write(true).open("/dev/null");
        Ok((budget, null.context("/dev/null")?))
    });
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
    };
    let Ok(manifests) = copy_tree(settings, context) else {
        return end_early(&reporter, started, &interrupt);
    };
    if let Some(signal) = interrupt.signal() {
        reporter.report_interrupt(interrupt::name(signal));
    }
    reporter
        .summarize(started.elapsed(), &manifests, &interrupt)
        .and_then(|()| sys::close_stdout())
        .context("write error")?;
    if let Some(signal) = interrupt.signal() {
        // The exit status tells the parent process which signal it was.
        sys::by_default(signal);
        return Ok(Outcome::Incomplete);
    }
    Ok(if counts.failed.get() == 0 {
        Outcome::Complete
    } else {
        Outcome::Incomplete
    })
}

/// Ends a run that copied nothing. Its error has been reported.
fn end_early(
    reporter: &Reporter<'_>,
    started: Instant,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    reporter
        .summarize_failure(started.elapsed(), interrupt)
        .and_then(|()| sys::close_stdout())
        .context("write error")?;
    if let Some(signal) = interrupt.signal() {
        sys::by_default(signal);
    }
    Ok(Outcome::Incomplete)
}

/// The process's umask. Call it before other threads create files: it clears the mask for a moment.
fn current_umask() -> Mode {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask
}
