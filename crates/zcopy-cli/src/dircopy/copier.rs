//! Copies one entry of the tree, or leaves its copy.
//!
//! [`Copier::copy_alone`] shows all steps: [start](Copier::start) a copy, read it if it is a clone, hash it,
//! announce it to the journal, publish it. `group` takes the same steps for several entries at a time.

use std::io;

use rustix::fs::FileType;

use super::containment::Identity;
use super::counts::Counts;
use super::face::Face;
use super::folded_names::FoldedNames;
use super::granularity::Granularities;
use super::hardlinks::Role;
use super::interrupt::Interrupt;
use super::journaling::Journaling;
use super::lookup::Known;
use super::manifest::journal_entry::JournalEntry;
use super::manifest::update::Line;
use super::reading::Reader;
use super::semaphore::Semaphore;
use super::settings::Settings;
use super::sharing::Sharing;
use super::symlinks::Symlinks;
use super::tree::{Entry, Waiting, WhileWaiting};
use super::written_back::UnwrittenFiles;

use file::{ReadCopy, Started};

pub(super) use announce::journal_entry;

mod announce;
pub(super) mod damaged;
mod existing;
mod file;
mod group;
mod other;
mod publish;

/// The error of a file whose name a manifest of the destination has.
pub(super) const MANIFEST_IN_THE_WAY: &str =
    "the destination has a manifest of this name, which is not replaced";

/// An entry to copy.
pub(super) struct Job {
    pub(super) entry: Entry,
    pub(super) role: Role,
    /// An error, if the manifests could not be read.
    pub(super) known: io::Result<Known>,
}

/// The result of an entry. The ledger takes results in the order of the tree.
pub(super) enum EntryResult {
    /// The entry needs a line in the manifest, and nothing else.
    Settled { path: Vec<u8>, line: Line },
    /// The first name of a file. The ledger links additional names to its copy.
    First {
        path: Vec<u8>,
        file: Identity,
        /// The number of its additional names.
        n_more: u64,
        /// None, if the copy failed.
        copy: Option<CopyResult>,
    },
    /// An additional name of a file, which the ledger links or copies.
    Additional {
        entry: Waiting,
        file: Identity,
        known: Known,
    },
}

impl EntryResult {
    /// Its size in memory, in bytes.
    fn weight(&self) -> usize {
        let path = match self {
            Self::Settled { path, .. } | Self::First { path, .. } => path.capacity(),
            Self::Additional { entry, .. } => entry.name().count_bytes(),
        };
        size_of::<Option<Self>>() + path
    }
}

/// The size in memory of the results of one directory, in bytes. `directory` is added if an additional
/// name keeps the directory open.
pub(super) fn weight(results: &[EntryResult], directory: usize) -> usize {
    let is_additional = |result: &EntryResult| matches!(result, EntryResult::Additional { .. });
    let kept = if results.iter().any(is_additional) {
        directory
    } else {
        0
    };
    kept + results.iter().map(EntryResult::weight).sum::<usize>()
}

/// How this run knows what a file of the destination holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Proof {
    /// This run has neither written nor read it.
    #[default]
    None,
    /// This run has written it.
    Written,
    /// This run has read it, and it has the digest of its line.
    Read,
}

/// The result of a copy that did not fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CopyResult {
    /// The line in the new manifest.
    pub(super) line: Line,
    /// The file in the destination, if it is a regular file that may get more names.
    pub(super) file: Option<Identity>,
    /// Whether the journal needs an entry for the line.
    pub(super) is_news: bool,
    pub(super) proof: Proof,
    /// Whether the file is the copy of its original, so that additional names can be linked to it.
    pub(super) is_copy: bool,
    /// Whether bytes of the copy are missing. Then a map beside it lists them.
    pub(super) is_damaged: bool,
}

/// Copies entries, one after another. Each thread has one.
pub(super) struct Copier<'a> {
    pub(super) settings: &'a Settings,
    pub(super) face: &'a Face<'a>,
    pub(super) counts: &'a Counts,
    pub(super) sharing: &'a Sharing,
    /// How the file systems of the destination round times.
    pub(super) granularities: &'a Granularities,
    pub(super) symlinks: &'a Symlinks,
    /// Limits the threads that create short files.
    pub(super) creators: &'a Semaphore,
    pub(super) reader: Reader<'a>,
    /// The number of entries that are started before the first of them is published, so that clones are
    /// read from the disk together, and short files are hashed together.
    pub(super) most_ahead: usize,
    /// Finds names that the destination does not tell apart.
    pub(super) names: &'a FoldedNames<'a>,
    /// Whether the directories of additional names stay open until these are linked.
    pub(super) while_waiting: WhileWaiting,
    pub(super) journaling: &'a Journaling<'a>,
    pub(super) interrupt: &'a Interrupt,
    pub(super) unwritten: &'a UnwrittenFiles,
    /// Entries that [`flush_news`](Self::flush_news) adds to the journal.
    pub(super) news: Vec<(Vec<u8>, JournalEntry)>,
}

impl<'a> Copier<'a> {
    /// Copies one entry, or leaves its copy. It is not linked to another name of its file.
    pub(super) fn copy_alone(&mut self, entry: &Entry, known: Known) -> anyhow::Result<CopyResult> {
        self.interrupt.check()?;
        let started = self.start(entry, known)?;
        let (copy, digest) = match self.read_clone(entry, started)? {
            ReadCopy::Finished(result) => return Ok(result),
            ReadCopy::Unhashed(copy, contents) => {
                let digest = self.reader.tap.digest_of_bytes(&contents);
                (copy, Some(digest))
            }
            ReadCopy::Unannounced(copy, digest) => (copy, digest),
        };
        self.prepare_announcement(entry, &copy, digest)?;
        self.announce(entry, &copy, digest);
        self.publish(entry, *copy, digest)
    }

    /// Starts the copy of an entry, or leaves its copy.
    fn start(&mut self, entry: &Entry, known: Known) -> anyhow::Result<Started<'a>> {
        if known.is_manifest {
            return self.keep_manifest(entry).map(Started::finished);
        }
        if known.is_journal {
            // A journal of the source records nothing of this destination.
            self.counts.others.add(1);
            return Ok(Started::finished(CopyResult::default()));
        }
        match entry.kind() {
            FileType::RegularFile => self.start_regular(entry, known),
            _ => self.copy_other(entry, known).map(Started::finished),
        }
    }
}
