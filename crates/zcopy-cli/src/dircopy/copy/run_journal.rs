//! The journal of a run. If it cannot be written, no file gets a name.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{anyhow, bail};

use crate::common::cli::message;
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::header::Header;
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::journal::{AddError, EarlierFailure, Journal};
use crate::dircopy::manifest::record::Announced;
use crate::dircopy::reporter::Reporter;
use crate::dircopy::write::atomic_file::{Durability, Replace};

/// The journal of a run. If it cannot be written, this is reported once, and no further file that
/// would be recorded gets its name. If it cannot be synced, no recorded file is replaced.
#[derive(Debug)]
pub(crate) struct RunJournal<'a> {
    reporter: &'a Reporter<'a>,
    journal: Option<Journal>,
    is_unwritten: AtomicBool,
    is_unsynced: AtomicBool,
    is_reported: AtomicBool,
}

impl<'a> RunJournal<'a> {
    /// For a run without a journal.
    pub(crate) fn none(reporter: &'a Reporter<'a>) -> Self {
        Self {
            reporter,
            journal: None,
            is_unwritten: AtomicBool::new(false),
            is_unsynced: AtomicBool::new(false),
            is_reported: AtomicBool::new(false),
        }
    }

    /// Begins a journal in `directory` for the files below `root`. A second attempt follows one that fails.
    pub(crate) fn begin(
        reporter: &'a Reporter<'a>,
        directory: &Arc<OwnedFd>,
        root: &Arc<OwnedFd>,
        header: &Header,
    ) -> Self {
        let mut this = Self::none(reporter);
        let begun = Journal::begin(directory, root, header).or_else(|error| {
            this.report(&error);
            Journal::begin(directory, root, header)
        });
        match begun {
            Ok(journal) => this.journal = Some(journal),
            Err(_) => this.is_unwritten = AtomicBool::new(true),
        }
        this
    }

    /// Allows a file to get a name that was announced with this durability. Fails if an
    /// announcement may be missing: if the run is killed, or its manifest cannot be written either,
    /// a file that gets a name now has no record, and a file that is replaced differs from its
    /// record.
    ///
    /// # Errors
    ///
    /// An entry could not be written, or not be synced if that was asked for.
    pub(crate) fn allow_name(
        &self,
        replace: Replace,
        durability: Durability,
    ) -> anyhow::Result<()> {
        let is_unsynced =
            durability == Durability::Synced && self.is_unsynced.load(Ordering::Relaxed);
        if self.is_unwritten.load(Ordering::Relaxed) || is_unsynced {
            bail!(match replace {
                Replace::No => "it is not copied: the journal cannot be written",
                Replace::Yes => "it is not replaced: the journal cannot be written",
            });
        }
        Ok(())
    }

    /// The name of the journal.
    pub(crate) fn name(&self) -> Option<&[u8]> {
        Some(self.journal.as_ref()?.name())
    }

    /// Announces changes. With [`Durability::Synced`] the announcements are on the disk when this
    /// returns.
    pub(crate) fn announce<'p>(
        &self,
        announced: impl IntoIterator<Item = (&'p [u8], Announced)>,
        durability: Durability,
    ) {
        let entries = announced.into_iter();
        let entries = entries.map(|(path, announced)| (path, JournalEntry::Announced(announced)));
        self.write(entries, durability);
    }

    /// Announces that files with these digests are about to be moved, each from one path to another.
    /// The announcements are on the disk when this returns. Until an entry says more, the record of
    /// either path counts if it has a file.
    pub(crate) fn announce_moves<'p>(
        &self,
        moves: impl IntoIterator<Item = (&'p [u8], &'p [u8], FileDigest)>,
    ) {
        let entries = moves.into_iter().flat_map(|(from, to, file)| {
            let adds = JournalEntry::Announced(Announced::Adds(file));
            [(to, adds), (from, JournalEntry::Removed), (from, adds)]
        });
        self.write(entries, Durability::Synced);
    }

    /// Adds entries that announce nothing.
    pub(crate) fn add<'p>(&self, entries: impl IntoIterator<Item = (&'p [u8], JournalEntry)>) {
        self.write(entries, Durability::Cached);
    }

    fn write<'p>(
        &self,
        entries: impl IntoIterator<Item = (&'p [u8], JournalEntry)>,
        durability: Durability,
    ) {
        let Some(journal) = &self.journal else {
            return;
        };
        match journal.add(entries, durability) {
            Ok(None) => {}
            Ok(Some(error)) => self.report(&error),
            Err(AddError::Write(error)) => {
                self.is_unwritten.store(true, Ordering::Relaxed);
                self.report(&error);
            }
            Err(AddError::Sync(error)) => {
                self.is_unsynced.store(true, Ordering::Relaxed);
                self.report(&error);
            }
        }
    }

    /// Opens each file that an entry says was written, except for files that are gone.
    pub(crate) fn for_each_written(&self, visit: impl FnMut(&[u8], io::Result<File>)) {
        if let Some(journal) = &self.journal
            && let Err(error) = journal.for_each_written(visit)
        {
            let error = anyhow!(error).context("cannot read the journal");
            self.reporter.report_error("".as_ref(), &error);
        }
    }

    /// Removes the journal. Call this once a manifest has its entries.
    pub(crate) fn remove(&self) {
        if let Some(journal) = &self.journal {
            journal.remove();
        }
    }

    fn report(&self, error: &io::Error) {
        // The thread whose write failed reports the cause.
        let is_consequence = match error.get_ref() {
            Some(inner) => inner.is::<EarlierFailure>(),
            None => false,
        };
        if !is_consequence && !self.is_reported.swap(true, Ordering::Relaxed) {
            let error = anyhow!("cannot write the journal: {}", message::worded(error));
            self.reporter.report_error("".as_ref(), &error);
        }
    }
}
