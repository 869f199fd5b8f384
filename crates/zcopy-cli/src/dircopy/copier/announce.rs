//! What a copier tells the journal.

use super::file::Draft;
use super::{Copier, Read, Step};
use crate::digest::Digest;
use crate::dircopy::manifest::journal_entry::JournalEntry;
use crate::dircopy::manifest::record::{Announced, FileDigest};
use crate::dircopy::place::Replace;
use crate::dircopy::tree::Entry;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

impl Copier<'_> {
    /// Tells the journal of all files at once that are about to get their names.
    pub(super) fn announce_all(&self, read: &[Step<Read<'_>>], digests: &[Digest]) {
        let kept = read.iter().filter_map(|step| match step {
            Step::Going(entry, _, Ok(Read::Kept(draft, ..))) => Some((entry, draft)),
            _ => None,
        });
        let announced: Vec<_> = kept
            .zip(digests)
            .map(|((entry, draft), digest)| {
                let path = entry.path().into_os_string().into_vec();
                let announced = self.announced(draft, Some(*digest));
                (path, JournalEntry::Announced(announced))
            })
            .collect();
        self.journaling
            .add(announced.iter().map(|(path, entry)| (&path[..], *entry)));
    }

    pub(super) fn announced(&self, draft: &Draft<'_>, digest: Option<Digest>) -> Announced {
        let algorithm = self.settings.algorithm;
        let file = digest.map(|digest| FileDigest { algorithm, digest });
        match (file.filter(|_| self.settings.leaves_sums), draft.replace()) {
            (None, _) => Announced::Clears,
            (Some(file), Replace::No) => Announced::Adds(file),
            (Some(file), Replace::Yes) => Announced::Replaces(file),
        }
    }

    /// Tells the journal of a file that is about to get its name.
    pub(super) fn announce(&self, entry: &Entry, draft: &Draft<'_>, digest: Option<Digest>) {
        let path = entry.path();
        let announced = JournalEntry::Announced(self.announced(draft, digest));
        self.journaling
            .add([(path.as_os_str().as_bytes(), announced)]);
    }

    /// Writes the entries of the batch to the journal.
    pub(in crate::dircopy) fn flush_news(&mut self) {
        let news = std::mem::take(&mut self.news);
        self.journaling
            .add(news.iter().map(|(path, entry)| (&path[..], *entry)));
    }

    /// Tells the journal of a file that has not got its name.
    pub(super) fn cancel(&mut self, entry: &Entry) {
        let path = entry.path().into_os_string().into_vec();
        self.news.push((path, JournalEntry::Cancelled));
    }
}
