//! Finds and verifies the generations of a history, and the journals in the same tree.

use std::cmp::Reverse;
use std::io;
use std::os::fd::BorrowedFd;

use super::inputs::InputsBuilder;
use super::opening::{Journals, Opening};
use super::two_histories::Cover;
use super::{Archive, Verify};
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::manifest::mhl::history::{History, Part};
use crate::dircopy::manifest::mhl::nested::NestedRead;

impl Archive {
    /// Finds the history in the root of a tree, and verifies it. The history in the root of
    /// `source` counts too, and so do the histories below both roots.
    ///
    /// The first digest of a file counts. A journal counts if it is newer than the newest generation
    /// of the tree, because a run writes its generation last.
    ///
    /// # Errors
    ///
    /// The root cannot be read; a temporary file cannot be written.
    pub(crate) fn open_mhl(
        root: BorrowedFd<'_>,
        verify: Verify,
        source: Option<BorrowedFd<'_>>,
    ) -> io::Result<Self> {
        let mut opening = Opening::of(ManifestKind::Mhl, root, false);
        let Journals {
            mut with_entries,
            mut stale,
        } = opening.find_journals(verify)?;
        with_entries.sort_by_key(|(_, header)| Reverse(header.time));
        let newest_journal = with_entries.first().map(|(_, header)| header.time);
        let is_unfinished = newest_journal.is_some() || !stale.is_empty();
        let mut history = History::find(Some(&root), source.as_ref(), is_unfinished);
        let newest_manifest = history.modified();
        for (journal, header) in with_entries {
            if Some(header.time) > newest_manifest {
                opening.add_journal(journal, verify, |path| path)?;
            } else {
                stale.push(journal);
            }
        }
        let mut own = InputsBuilder::default();
        let mut compared = InputsBuilder::default();
        let mut cover = Cover::default();
        // The oldest generation takes precedence, as the newest manifest does elsewhere.
        let mut add = |part, next: &mut dyn FnMut() -> Option<(Vec<u8>, FileDigest)>| {
            let inputs = match part {
                Part::Own => &mut own,
                Part::Compared => &mut compared,
            };
            inputs.sort(|| {
                let next = next().inspect(|(_, file)| {
                    if part == Part::Compared {
                        cover.add(*file);
                    }
                });
                Ok(next.map(|(path, file)| (path, JournalEntry::HasAlso(file))))
            })
        };
        history.read_patterns();
        let mut nested = NestedRead::read(root, source, is_unfinished, |part, next| {
            add(part, &mut || {
                std::iter::from_fn(&mut *next).find(|(path, _)| !history.leaves_out(path))
            })
        })?;
        let kept_histories = std::mem::take(&mut nested.kept);
        history.read(|part, files| {
            add(part, &mut || {
                std::iter::from_fn(|| files.next()).find(|(path, _)| !nested.list(path))
            })
        })?;
        history.set_nested(std::mem::take(&mut nested.histories));
        // A run copies those of the source, and reports what is damaged at its end.
        if source.is_none() {
            opening.damaged.append(&mut nested.damaged);
        }
        opening.damaged.append(&mut history.take_damaged());
        Ok(Self {
            kind: ManifestKind::Mhl,
            has_manifest: !history.is_empty(),
            algorithm: history.algorithm(),
            names: Vec::new(),
            own: Vec::new(),
            copied: Vec::new(),
            newest: newest_manifest.max(newest_journal),
            newest_manifest,
            damaged: opening.damaged,
            inputs: opening.inputs.finish()?,
            older: vec![own.finish()?, compared.finish()?],
            compared_algorithms: cover.0,
            kept_histories,
            history: Some(history),
            journals: opening.journals,
            stale,
        })
    }
}
