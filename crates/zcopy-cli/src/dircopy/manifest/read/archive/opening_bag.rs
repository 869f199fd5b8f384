//! Finds and verifies the tag files of a bag, and the journals beside them.

use std::cmp::Reverse;
use std::io;
use std::os::fd::BorrowedFd;

use super::inputs::{Inputs, InputsBuilder};
use super::opening::{Journals, Opening};
use super::{Archive, DamagedFile, Verify};
use crate::common::digest::AlgorithmSet;
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::bag::tag_files::{self, PayloadLines, UncheckedPayload};
use crate::dircopy::manifest::bag::{self, PathBase};
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::manifest::read::damage::Damage;
use crate::dircopy::manifest::read::merge::Records;

impl Archive {
    /// Finds the tag files in the root of a bag, and verifies them. The paths of records begin at
    /// `base`.
    ///
    /// A journal counts if it is newer than the manifests of the bag: a run writes these at its
    /// end.
    ///
    /// # Errors
    ///
    /// The root cannot be read; a temporary file cannot be written.
    pub(crate) fn open_bag(
        root: BorrowedFd<'_>,
        verify: Verify,
        base: PathBase,
    ) -> io::Result<Self> {
        let mut opening = Opening::of(ManifestKind::Bag, root, false);
        let Journals {
            mut with_entries,
            mut stale,
        } = opening.find_journals(verify)?;
        with_entries.sort_by_key(|(_, header)| Reverse(header.time));
        let newest_journal = with_entries.first().map(|(_, header)| header.time);
        let manifests = tag_files::payload_manifests(root)?;
        let modified = manifests
            .iter()
            .map(|manifest| manifest.modified(root).ok());
        let newest_manifest = modified.max().flatten();
        for (journal, header) in with_entries {
            if Some(header.time) > newest_manifest {
                opening.add_journal(journal, verify, |path| base.of_payload_path(path))?;
            } else {
                stale.push(journal);
            }
        }
        if verify == Verify::All && !opening.journals.is_empty() {
            opening.add_damage(&bag::DECLARATION, Damage::Unfinished);
        }
        if !manifests.is_empty() {
            for (name, damage) in tag_files::verify(root)? {
                opening.add_damage(&name, damage);
            }
        }
        let is_info = |damaged: &DamagedFile| damaged.name == bag::INFO;
        // A bag that is not finished has more files than its last run told.
        if verify == Verify::All
            && !manifests.is_empty()
            && opening.journals.is_empty()
            && !opening.damaged.iter().any(is_info)
            && let Err(damage) = bag::verify_total(root)
        {
            opening.add_damage(&bag::INFO, damage);
        }
        for manifest in &manifests {
            let lines = match PayloadLines::open(root, manifest, base) {
                Ok(Some(lines)) => lines,
                Ok(None) => continue,
                Err(error) => {
                    opening.add_damage(&manifest.name, error.into());
                    continue;
                }
            };
            opening.add_bag_lines(&manifest.name, lines)?;
        }
        let inputs = std::mem::take(&mut opening.inputs).finish()?;
        for manifest in &manifests {
            match UncheckedPayload::open(root, manifest, base) {
                Ok(Some(paths)) => {
                    if !has_all(&inputs, paths)? {
                        opening.add_damage(&manifest.name, Damage::UnknownFunction);
                    }
                }
                Ok(None) => {}
                Err(error) => opening.add_damage(&manifest.name, error.into()),
            }
        }
        Ok(Self {
            kind: ManifestKind::Bag,
            has_manifest: !manifests.is_empty(),
            algorithm: tag_files::algorithm_of(&manifests),
            names: Vec::new(),
            own: Vec::new(),
            copied: Vec::new(),
            newest: newest_manifest.max(newest_journal),
            newest_manifest,
            damaged: opening.damaged,
            inputs,
            older: Vec::new(),
            compared_algorithms: AlgorithmSet::default(),
            kept_histories: Vec::new(),
            history: None,
            journals: opening.journals,
            stale,
        })
    }
}

/// Whether there are records of all these paths.
fn has_all(records: &Inputs, mut paths: UncheckedPayload<'_>) -> io::Result<bool> {
    let mut sorted = InputsBuilder::default();
    sorted.sort(|| {
        let next = paths.next()?;
        Ok(next.map(|path| (path, JournalEntry::Has(FileDigest::NONE))))
    })?;
    let sorted = sorted.finish()?;
    let mut paths = Records::merge(sorted.sorted())?;
    let mut records = Records::merge(records.sorted())?;
    while let Some(path) = paths.next()? {
        if records.find(&path.path)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Opening<'_> {
    /// Adds the lines of a manifest up to the first that is malformed.
    fn add_bag_lines(&mut self, name: &String, mut lines: PayloadLines<'_>) -> io::Result<()> {
        let mut damage = None;
        self.inputs.sort(|| match lines.next() {
            Ok(Some((path, checksum))) => {
                let file = FileDigest::from_checksum(lines.algorithm(), &checksum);
                Ok(file.map(|file| (path, JournalEntry::HasAlso(file))))
            }
            Ok(None) => Ok(None),
            Err(found) => {
                damage = Some(found);
                Ok(None)
            }
        })?;
        if let Some(damage) = damage {
            self.add_damage(name, damage);
        }
        Ok(())
    }
}
