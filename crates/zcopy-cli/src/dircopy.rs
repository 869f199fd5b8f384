//! What `zc-dircopy` does: a tree is copied, file by file, and its sums are left behind.
//!
//! Everything here goes by directory descriptors and names in them, never by paths, so that whatever somebody
//! renames or replaces during the run, nothing is read or written outside of the two trees. Names are bytes.
//!
//! One thread at a time walks; as many as there are jobs copy; others hash. What has become of entries is taken in the order of
//! the tree, so that the manifest is sorted, and a link is made when what it leads to has its name.
//!
//! - `budget`: how many descriptors each part may open.
//! - `batches`: which entries one job takes; `gate`: limits the threads that create short files.
//! - `copier`: copies or leaves one entry; `reading` and `hashing`: hash it; `ledger`: does what has to be done in order.
//! - `lookup`: what earlier runs recorded of an entry; `journaling`: the journal of this run; `run_lock`: one run at a time.
//! - `folded_names`: names that the destination does not tell apart; `spelling`: how directories find and list names.
//! - `granularity` and `time`: how file systems round times; `symlinks`, `file_system` and `limitation`: what they lack.
//! - `damage_map`: which bytes of a damaged file are missing.
//! - `interrupt`: signals that end a run early; `written_back`: writes that fail late.
//! - `verify`: `--check`; `amend`: changes records without a copy.
//! - [`containment`]: that the destination does not lie in the source.
//! - [`tree`]: walks the source and mirrors its directories.
//! - [`policy`]: which files are copied.
//! - [`place`]: files under construction, which get their names once they are whole.
//! - [`attributes`]: owners, modes, extended attributes, access lists and times.

use std::time::Instant;

use anyhow::anyhow;
use rustix::fs::Mode;

pub use args::Args;

use budget::{Budget, Descriptors};
use copy::{Stopped, copy_tree};
use counts::Counts;
use end::End;
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

mod amend;
mod args;
mod settings;

mod batches;
mod budget;
mod copier;
mod copy;
mod folded_names;
mod gate;
mod granularity;
mod hashing;
mod interrupt;
mod journaling;
mod ledger;
mod links;
mod lookup;
mod reading;
mod run_lock;
mod run_manifest;
mod sharing;
mod spelling;
mod symlinks;
mod time;
mod written_back;

mod file_system;
mod limitation;

mod counts;
mod damage_map;
mod end;
mod face;
mod prescan;
mod progress;
mod summary;

mod verify;

mod listed;
mod listing;

#[cfg(test)]
mod ground;

/// The status after a usage error.
pub const MISUSE: u8 = 2;

/// What came of a run. What failed has been complained of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All was done.
    Complete,
    /// Something could not be copied or verified.
    Incomplete,
    /// The command line makes no sense.
    Misused,
}

/// Copies a tree, or verifies some.
#[must_use]
pub fn run(args: &Args) -> Outcome {
    if args.check {
        return verify::verify(args);
    }
    match Settings::of(args, current_mask()) {
        Ok(settings) => copy(settings, args.manner()),
        Err(message) => {
            exit::say(&message);
            exit::refer_to_help();
            Outcome::Misused
        }
    }
}

/// Copies the tree, and tells what came of it.
fn copy(settings: Settings, manner: Manner) -> Outcome {
    let begun = Instant::now();
    if let Err(error) = sys::hold_closed_descriptors() {
        exit::complain(&anyhow!(error));
        return Outcome::Incomplete;
    }
    let budget = match Budget::of(Descriptors::of_process()) {
        Ok(budget) => budget,
        Err(error) => {
            exit::complain(&anyhow!(error));
            return Outcome::Incomplete;
        }
    };
    // Whoever stops listening does not stop the copying.
    sys::ignore_sigpipe();
    let counts = Counts::default();
    let face = match Face::new(manner, &counts) {
        Ok(face) => face,
        Err(error) => {
            exit::complain(&anyhow!(error));
            return Outcome::Incomplete;
        }
    };
    let mode = mode_of_manifest();
    let interrupt = Interrupt::default();
    let manifests = match copy_tree(settings, &face, (&counts, budget), &interrupt, mode) {
        Ok(manifests) => manifests,
        Err(Stopped::Told) => return Outcome::Incomplete,
        Err(Stopped::By(error)) => {
            exit::complain(&error);
            return Outcome::Incomplete;
        }
    };
    if let Some(signal) = interrupt.signal() {
        face.report_interrupt(interrupt::name(signal));
    }
    let told = face.summarize(begun.elapsed(), &manifests, &interrupt);
    if let Err(error) = told.and_then(|()| sys::close_stdout()) {
        exit::complain(&anyhow!(error).context("write error"));
        return Outcome::Incomplete;
    }
    if let Some(signal) = interrupt.signal() {
        // The caller learns what ended the run.
        sys::by_default(signal);
        return Outcome::Incomplete;
    }
    if counts.failed.get() == 0 {
        Outcome::Complete
    } else {
        Outcome::Incomplete
    }
}

/// Ends the drawing, even if the work panics.
struct RungAtLast<'a>(&'a End);

impl Drop for RungAtLast<'_> {
    fn drop(&mut self) {
        self.0.ring();
    }
}

/// The mode of a new manifest. To be asked before there are threads: the mask is the process's.
fn mode_of_manifest() -> Mode {
    Mode::from_raw_mode(0o666) - current_mask()
}

/// What new files are not allowed. To be asked before there are threads: the mask is the process's.
fn current_mask() -> Mode {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask
}
