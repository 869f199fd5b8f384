//! The journal of a run. If it cannot be written, no file gets a name.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{anyhow, bail};

use super::face::Face;
use super::manifest::journal::{EarlierFailure, Journal};
use super::manifest::journal_entry::JournalEntry;
use super::manifest::metadata::Header;
use super::manifest::record::Announced;
use super::place::{Durability, Replace};

/// The journal of a run. If it cannot be written, this is reported once, and no further file that
/// would be recorded gets its name.
#[derive(Debug)]
pub(super) struct Journaling<'a> {
    face: &'a Face<'a>,
    journal: Option<Journal>,
    has_failed: AtomicBool,
    is_reported: AtomicBool,
}

impl<'a> Journaling<'a> {
    /// For a run without a journal.
    pub(super) fn none(face: &'a Face<'a>) -> Self {
        Self {
            face,
            journal: None,
            has_failed: AtomicBool::new(false),
            is_reported: AtomicBool::new(false),
        }
    }

    /// Begins a journal.
    pub(super) fn begin(face: &'a Face<'a>, directory: &Arc<OwnedFd>, header: &Header) -> Self {
        let mut journaling = Self::none(face);
        match Journal::begin(directory, header) {
            Ok(journal) => journaling.journal = Some(journal),
            Err(error) => journaling.fail(error),
        }
        journaling
    }

    /// Allows a file to get a name that was announced. Fails if an entry could not be written: if
    /// the run is killed, or its manifest cannot be written either, a file that gets a name now has
    /// no record, and a file that is replaced differs from its record.
    ///
    /// # Errors
    ///
    /// An entry could not be written.
    pub(super) fn allow_name(&self, replace: Replace) -> anyhow::Result<()> {
        if self.has_failed.load(Ordering::Relaxed) {
            bail!(match replace {
                Replace::No => "it is not copied: the journal cannot be written",
                Replace::Yes => "it is not replaced: the journal cannot be written",
            });
        }
        Ok(())
    }

    /// The name of the journal.
    pub(super) fn name(&self) -> Option<&[u8]> {
        Some(self.journal.as_ref()?.name())
    }

    /// Announces changes. With [`Durability::Synced`] the announcements are on the disk when this
    /// returns.
    pub(super) fn announce<'p>(
        &self,
        announced: impl IntoIterator<Item = (&'p [u8], Announced)>,
        durability: Durability,
    ) {
        let entries = announced.into_iter();
        let entries = entries.map(|(path, announced)| (path, JournalEntry::Announced(announced)));
        self.write(entries, durability);
    }

    /// Adds entries that announce nothing.
    pub(super) fn add<'p>(&self, entries: impl IntoIterator<Item = (&'p [u8], JournalEntry)>) {
        self.write(entries, Durability::Cached);
    }

    fn write<'p>(
        &self,
        entries: impl IntoIterator<Item = (&'p [u8], JournalEntry)>,
        durability: Durability,
    ) {
        if let Some(journal) = &self.journal
            && !self.has_failed.load(Ordering::Relaxed)
            && let Err(error) = journal.add(entries, durability)
        {
            self.fail(error);
        }
    }

    /// Opens each file that an entry says was written, except for files that are gone.
    pub(super) fn for_each_written(&self, visit: impl FnMut(&[u8], io::Result<File>)) {
        if let Some(journal) = &self.journal
            && let Err(error) = journal.for_each_written(visit)
        {
            self.fail(error);
        }
    }

    /// Removes the journal. Call this once a manifest has its entries.
    pub(super) fn remove(&self) {
        if let Some(journal) = &self.journal {
            journal.remove();
        }
    }

    fn fail(&self, error: io::Error) {
        self.has_failed.store(true, Ordering::Relaxed);
        // The thread whose write failed reports the cause.
        let is_consequence = match error.get_ref() {
            Some(inner) => inner.is::<EarlierFailure>(),
            None => false,
        };
        if !is_consequence && !self.is_reported.swap(true, Ordering::Relaxed) {
            let error = anyhow!(error).context("cannot write the journal");
            self.face.complain("".as_ref(), &error);
        }
    }
}
