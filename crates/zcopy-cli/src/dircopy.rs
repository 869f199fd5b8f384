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
//! - `copy`: copies a tree; `run_manifest`: its manifest; `settings`: what the command line asks for.
//! - `budget`: how many descriptors each part may open.
//! - `batches`: which entries one job takes; `semaphore`: limits the threads that create short files.
//! - `copier`: copies or leaves one entry; `reading` and `hashing`: read and hash files; `ledger`:
//!   writes lines of the manifest and makes hard links.
//! - `lookup`: what earlier runs recorded of an entry; `journaling`: the journal of this run;
//!   `run_lock`: one run at a time.
//! - `folded_names`: names that the destination does not tell apart; `spelling`: how directories
//!   find and list names.
//! - `granularity` and `time`: how file systems round times; `symlinks`, `file_system` and
//!   `limitation`: what they lack.
//! - `damage_map`: which bytes of a damaged file are missing.
//! - `interrupt`: signals that end a run early; `written_back`: writes that fail late.
//! - `verify`: `--check`; `amend`: changes records without a copy.
//! - [`containment`]: refuses a destination that lies in the source.
//! - [`tree`]: walks the source and mirrors its directories.
//! - [`policy`]: which files are copied.
//! - [`place`]: files under construction, which get their names once they are whole.
//! - [`attributes`]: owners, modes, extended attributes, access lists and times.

use std::fs::File;
use std::time::Instant;

use anyhow::Context as _;
use rustix::fs::Mode;

pub use args::Args;

use budget::{Budget, Descriptors};
use copy::{Context, copy_tree};
use counts::Counts;
use face::{Face, Manner};
use interrupt::Interrupt;
use settings::Settings;

use crate::{exit, sys};

pub mod containment;
pub mod tree;

pub mod policy;

pub mod place;

pub mod attributes;

pub mod manifest;

mod accepted_maps;
mod amend;
mod args;
mod settings;

mod batches;
mod budget;
mod copier;
mod copy;
mod folded_names;
mod granularity;
mod hardlinks;
mod hashing;
mod interrupt;
mod journaling;
mod ledger;
mod lookup;
mod reading;
mod run_lock;
mod run_manifest;
mod semaphore;
mod sharing;
mod spelling;
mod symlinks;
mod time;
mod written_back;

mod file_system;
mod limitation;

mod counts;
mod damage_map;
mod face;
mod prescan;
mod progress;
mod stop_flag;
mod summary;
mod temporary_file;

mod verify;

mod listed;
mod listing;
mod st_mode;

#[cfg(test)]
mod ground;

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
        return verify::verify(args);
    }
    let settings = match Settings::of(args, current_umask()) {
        Ok(settings) => settings,
        Err(message) => {
            exit::say(&message);
            exit::refer_to_help();
            return Outcome::Misused;
        }
    };
    copy(settings, args.manner()).unwrap_or_else(|error| {
        exit::complain(&error);
        Outcome::Incomplete
    })
}

/// Copies a tree, and writes the summary.
///
/// # Errors
///
/// The copy cannot begin, or the summary cannot be written. Every other error has been reported.
fn copy(settings: Settings, manner: Manner) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    sys::hold_closed_descriptors()?;
    let budget = Budget::of(Descriptors::of_process());
    // A reader that closes the pipe does not end the copy.
    sys::ignore_sigpipe();
    let counts = Counts::default();
    let face = match Face::new(manner, &counts) {
        Ok(face) => face,
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
            face.complain_of_run(&error);
            return end_early(&face, started, &interrupt);
        }
    };
    let context = Context {
        face: &face,
        counts: &counts,
        interrupt: &interrupt,
        budget,
        null: &null,
    };
    let Ok(manifests) = copy_tree(settings, context) else {
        return end_early(&face, started, &interrupt);
    };
    if let Some(signal) = interrupt.signal() {
        face.report_interrupt(interrupt::name(signal));
    }
    face.summarize(started.elapsed(), &manifests, &interrupt)
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
fn end_early(face: &Face<'_>, started: Instant, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    face.summarize_failure(started.elapsed(), interrupt)
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
