//! Copies one entry of the tree, or leaves its copy.
//!
//! [`Copier::copy_alone`] shows all steps: [start](Copier::start) a copy, read it if it is a clone,
//! hash it, announce it to the journal, publish it. `group` takes the same steps for several
//! entries at a time.

use rustix::fs::FileType;

use super::counts::Counts;
use super::folded_names::FoldedNames;
use super::hash::reader::Reader;
use super::interrupt::Interrupt;
use super::manifest::journal::entry::JournalEntry;
use super::manifest::write::update::Line;
use super::reporter::Reporter;
use super::reporter::file_result::Action;
use super::schedule::lookup::PriorRecord;
use super::schedule::semaphore::Semaphore;
use super::schedule::threads::Syncs;
use super::settings::Settings;
use super::shared_reads::Member;
use super::stat::Identity;
use super::walk::{DeferredDirs, DeferredEntry, Entry};
use super::write::unwritten_files::UnwrittenFiles;
use granularity::Granularities;
use reflink_support::ReflinkSupport;
use run_journal::RunJournal;
use symlinks::Symlinks;
use write_back::WriteBackThread;

use file::{Method, ReadCopy, Started};

pub(crate) use announce::journal_entry;

pub(crate) mod granularity;
pub(crate) mod reflink_support;
pub(crate) mod run_journal;
pub(crate) mod symlinks;

mod announce;
pub(crate) mod damaged;
mod existing;
mod file;
mod group;
mod other;
mod publish;
mod read_back;
mod read_together;
mod resume;
mod sync_together;
pub(crate) mod write_back;

/// The error of a file whose name a manifest of the destination has.
pub(crate) const MANIFEST_IN_THE_WAY: &str =
    "the destination has a manifest of this name, which is not replaced";

/// The result of an entry. The finisher takes results in the order of the tree.
pub(crate) enum EntryResult {
    /// The entry needs a line in the manifest, and nothing else.
    Settled { path: Vec<u8>, line: Line },
    /// The first name of a file. The finisher links additional names to its copy.
    First {
        path: Vec<u8>,
        file: Identity,
        /// The number of its additional names.
        n_more: u64,
        /// None, if the copy failed.
        copy: Option<CopyResult>,
    },
    /// An additional name of a file, which the finisher links or copies.
    Additional {
        entry: DeferredEntry,
        file: Identity,
        prior: Box<PriorRecord>,
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

/// The size in memory of the results of one directory, in bytes. `directory` is added if an
/// additional name keeps the directory open.
pub(crate) fn weight(results: &[EntryResult], directory: usize) -> usize {
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
pub(crate) enum Proof {
    /// This run has neither written nor read it.
    #[default]
    None,
    /// This run has written it.
    Written,
    /// This run has read it, and it has the digest of its line.
    Read,
}

impl From<Method> for Action {
    fn from(method: Method) -> Self {
        match method {
            Method::Written => Self::Copied,
            Method::Cloned => Self::Cloned,
        }
    }
}

/// The result of a copy that did not fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "one for each fact")]
pub(crate) struct CopyResult {
    /// The line in the new manifest.
    pub(crate) line: Line,
    /// The file in the destination, if it is a regular file that may get more names.
    pub(crate) file: Option<Identity>,
    /// Whether the journal needs an entry for the line.
    pub(crate) needs_journal: bool,
    pub(crate) proof: Proof,
    /// Whether the file is the copy of its original, so that additional names can be linked to it.
    pub(crate) is_copy: bool,
    /// Whether bytes of the copy are missing. Then a map beside it lists them.
    pub(crate) is_damaged: bool,
    pub(crate) action: Action,
    /// Whether the copy replaced a file of the destination.
    pub(crate) is_replacement: bool,
    /// The number of bytes that an earlier run has copied.
    pub(crate) resumed_bytes: u64,
}

impl CopyResult {
    /// The result for an entry that is left and has no line.
    pub(crate) fn skipped() -> Self {
        Self {
            action: Action::Skipped,
            ..Self::default()
        }
    }
}

/// Copies entries, one after another. Each thread has one.
pub(crate) struct Copier<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) reporter: &'a Reporter<'a>,
    pub(crate) counts: &'a Counts,
    pub(crate) reflink_support: &'a ReflinkSupport,
    /// How the file systems of the destination round times.
    pub(crate) granularities: &'a Granularities,
    pub(crate) symlinks: &'a Symlinks,
    /// Limits the threads that create short files.
    pub(crate) creators: &'a Semaphore,
    pub(crate) reader: Reader<'a>,
    /// The number of entries that are started before the first of them is published, so that clones
    /// are read from the disk together, and short files are hashed together.
    pub(crate) group_size: usize,
    /// How files are brought to the disk.
    pub(crate) syncs: Syncs,
    /// Finds names that the destination does not tell apart.
    pub(crate) names: &'a FoldedNames<'a>,
    /// Whether the directories of additional names stay open until these are linked.
    pub(crate) deferred_dirs: DeferredDirs,
    pub(crate) journal: &'a RunJournal<'a>,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) unwritten: &'a UnwrittenFiles,
    /// Begins to write long copies to the disk.
    pub(crate) write_back: &'a WriteBackThread<'a>,
    /// Shares the reads of long files with the runs of other destinations.
    pub(crate) shared_reads: Option<&'a Member<'a>>,
    /// Entries that [`flush_journal_queue`](Self::flush_journal_queue) adds to the journal.
    pub(crate) journal_queue: Vec<(Vec<u8>, JournalEntry)>,
}

impl<'a> Copier<'a> {
    /// Copies one entry, or leaves its copy. It is not linked to another name of its file.
    pub(crate) fn copy_alone(
        &mut self,
        entry: &Entry,
        prior: PriorRecord,
    ) -> anyhow::Result<CopyResult> {
        self.interrupt.check()?;
        let started = self.start(entry, prior)?;
        let (copy, digest) = match self.read_clone(entry, started)? {
            ReadCopy::Finished(result) => return Ok(result),
            ReadCopy::Unhashed(copy, contents) => {
                let digest = self.reader.client.digest_of_bytes(&contents);
                (copy, Some(digest))
            }
            ReadCopy::Unannounced(copy, digest) => (copy, digest),
        };
        self.prepare_announcement(entry, &copy, digest)?;
        self.announce(entry, &copy, digest);
        self.prepare_or_cancel(entry, &copy, digest)?;
        self.publish(entry, *copy, digest, self.settings.durability)
    }

    /// Starts the copy of an entry, or leaves its copy.
    fn start(&mut self, entry: &Entry, prior: PriorRecord) -> anyhow::Result<Started<'a>> {
        if prior.is_manifest {
            return self.keep_manifest(entry).map(Started::finished);
        }
        if prior.is_journal {
            // It records nothing of this destination.
            let remark = "not copied: it is the journal of a run that copied to the source";
            self.reporter.report_note(&entry.path(), remark);
            return Ok(Started::finished(CopyResult::skipped()));
        }
        match entry.kind() {
            FileType::RegularFile => self.start_regular(entry, prior),
            _ => self.copy_other(entry, prior).map(Started::finished),
        }
    }
}
