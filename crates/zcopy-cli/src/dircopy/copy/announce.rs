//! Entries that a copier adds to the journal.

use std::os::unix::ffi::OsStringExt as _;

use anyhow::Context as _;

use super::Copier;
use super::file::PendingCopy;
use crate::common::digest::Digest;
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::record::Announced;
use crate::dircopy::manifest::write::update::Line;
use crate::dircopy::schedule::lookup::PriorRecord;
use crate::dircopy::stat::is_regular;
use crate::dircopy::walk::Entry;
use crate::dircopy::write::atomic_file::{Durability, Replace};

/// The journal entry for a new line of the manifest.
pub(crate) fn journal_entry(line: Line) -> Option<JournalEntry> {
    match line {
        Line::Keep | Line::Differs(_) => None,
        Line::Set(file) => Some(JournalEntry::Has(file)),
        Line::Remove => Some(JournalEntry::Removed),
    }
}

impl Copier<'_> {
    /// Announces copies that are about to get their names, in one write to the journal.
    pub(super) fn announce_all<'e>(
        &self,
        copies: impl Iterator<Item = (&'e Entry, &'e PendingCopy<'e>, Option<Digest>)>,
    ) {
        let mut durability = Durability::Cached;
        let announced: Vec<_> = copies
            .map(|(entry, copy, digest)| {
                if self.durability_of_announcement(copy, digest) == Durability::Synced {
                    durability = Durability::Synced;
                }
                let path = entry.path().into_os_string().into_vec();
                (path, self.announced(copy, digest))
            })
            .collect();
        let announced = announced.iter().map(|(path, entry)| (&path[..], *entry));
        self.journal.announce(announced, durability);
    }

    /// Does what comes before the announcement of a copy. A killed run leaves no announcement of a
    /// copy that it would have refused.
    ///
    /// # Errors
    ///
    /// The copy is refused; a file cannot be read.
    pub(super) fn prepare_announcement(
        &mut self,
        entry: &Entry,
        copy: &PendingCopy<'_>,
        digest: Option<Digest>,
    ) -> anyhow::Result<()> {
        self.compare_original_with_record(copy, digest)?;
        self.settle_announcement(entry, copy.target.prior)
    }

    /// Records the digest of an existing file that a killed run may have copied, before another
    /// file replaces it. Of two announcements only the last counts.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(crate) fn settle_announcement(
        &mut self,
        entry: &Entry,
        prior: PriorRecord,
    ) -> anyhow::Result<()> {
        let Some(announced) = prior.announced else {
            return Ok(());
        };
        let existing = entry.existing().context("cannot stat its copy")?;
        if !existing.as_ref().is_some_and(is_regular) {
            return Ok(());
        }
        let new = match announced {
            // The name was free, so the existing file is the new one.
            Announced::Adds(new) => {
                self.journal_digest(entry, new);
                return Ok(());
            }
            Announced::Replaces(new) => Some(new),
            Announced::Clears => None,
        };
        let expected: Vec<_> = prior.recorded.into_iter().chain(new).collect();
        if expected.is_empty() {
            return Ok(());
        }
        let found = self.reader.digest_of_copy(entry, None, &expected)?;
        if !found.is_as_recorded {
            return Ok(());
        }
        let algorithm = self.settings.algorithm;
        let digest = found.digest;
        self.journal_digest(entry, FileDigest { algorithm, digest });
        Ok(())
    }

    fn journal_digest(&self, entry: &Entry, file: FileDigest) {
        let path = entry.path().into_os_string().into_vec();
        self.journal.add([(&path[..], JournalEntry::Has(file))]);
    }

    /// Announces a copy that is about to get its name.
    pub(super) fn announce(&self, entry: &Entry, copy: &PendingCopy<'_>, digest: Option<Digest>) {
        self.announce_all([(entry, copy, digest)].into_iter());
    }

    /// Whether the announcement of a copy has to be on the disk before the copy gets its name.
    pub(super) fn durability_of_announcement(
        &self,
        copy: &PendingCopy<'_>,
        digest: Option<Digest>,
    ) -> Durability {
        let announced = self.announced(copy, digest);
        let prior = &copy.target.prior;
        prior.durability_of(announced, self.settings.durability)
    }

    fn announced(&self, copy: &PendingCopy<'_>, digest: Option<Digest>) -> Announced {
        let algorithm = self.settings.algorithm;
        let file = digest.map(|digest| FileDigest { algorithm, digest });
        match (
            file.filter(|_| self.settings.writes_manifest),
            copy.target.replace,
        ) {
            (None, _) => Announced::Clears,
            (Some(file), Replace::No) => Announced::Adds(file),
            (Some(file), Replace::Yes) => Announced::Replaces(file),
        }
    }

    /// Takes back the announcement of a copy that did not get its name.
    pub(super) fn cancel(&mut self, entry: &Entry) {
        let path = entry.path().into_os_string().into_vec();
        self.journal_queue.push((path, JournalEntry::Cancelled));
    }

    /// Adds the news to the journal.
    pub(crate) fn flush_journal_queue(&mut self) {
        let journal_queue = std::mem::take(&mut self.journal_queue);
        self.journal.add(
            journal_queue
                .iter()
                .map(|(path, entry)| (&path[..], *entry)),
        );
    }
}
