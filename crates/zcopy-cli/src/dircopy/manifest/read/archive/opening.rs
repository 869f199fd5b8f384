//! Finds, verifies and orders the manifests and journals of a tree.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io;
use std::os::fd::BorrowedFd;

use super::inputs::InputsBuilder;
use super::{Archive, DamagedFile, Verify, file_names};
use crate::common::digest::AlgorithmSet;
use crate::dircopy::file_ranges::FileRanges;
use crate::dircopy::manifest::header::Header;
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::journal::{HeaderAndEntries, LeftJournal};
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::manifest::name::Name;
use crate::dircopy::manifest::read::candidate::{Candidate, Order};
use crate::dircopy::manifest::read::copied_manifests::separate_copied;
use crate::dircopy::manifest::read::damage::Damage;
use crate::dircopy::manifest::read::root_names::{journals_in, names_in};
use crate::dircopy::manifest::record::{Announced, Origin};

impl Archive {
    /// Finds the manifests in the root of a tree and verifies them. `converts_paths` tells whether
    /// backslashes in the lists of other programs separate names.
    ///
    /// Manifests that are [damaged](Self::damaged) still take part, as far as their lines can be
    /// read.
    ///
    /// # Errors
    ///
    /// The root cannot be read; a temporary file cannot be written.
    pub(crate) fn open(
        root: BorrowedFd<'_>,
        verify: Verify,
        converts_paths: bool,
    ) -> io::Result<Self> {
        let mut opening = Opening::of(ManifestKind::Sums, root, converts_paths);
        // The journals come first: a run that ends meanwhile gives its manifest a name and then
        // removes its journal.
        let Journals {
            mut with_entries,
            mut stale,
        } = opening.find_journals(verify)?;
        let mut candidates = Vec::new();
        for name in names_in(root)? {
            candidates.push(Candidate::read(root, name));
        }
        let in_journals = with_entries.iter().flat_map(|(_, header)| &header.copied);
        let mut separated = separate_copied(root, &mut candidates, in_journals);
        candidates.sort_by_key(|candidate| Reverse(candidate.age()));
        separated
            .candidates
            .sort_by_key(|candidate| Reverse(candidate.age()));
        let names: Vec<_> = candidates.iter().map(|candidate| candidate.name).collect();
        let own = candidates.iter().filter_map(Candidate::included).collect();
        let newest_manifest = candidates.first().and_then(Candidate::time);
        let newest = with_entries
            .iter()
            .map(|(_, header)| Some(header.time))
            .chain([newest_manifest])
            .max()
            .flatten();
        for candidate in &candidates {
            if let Ok(Some(header)) = &candidate.header {
                let is_included =
                    |journal: &LeftJournal| header.journals.iter().any(|name| journal.has(name));
                let included = with_entries.extract_if(.., |(journal, _)| is_included(journal));
                stale.extend(included.map(|(journal, _)| journal));
            }
        }
        with_entries.sort_by_key(|(_, header)| Reverse(header.time));
        opening.add_all(with_entries, candidates, verify)?;
        opening.own_files = file_names(&names).map(String::into_bytes).collect();
        for candidate in separated.candidates {
            opening.add_copied(&candidate)?;
        }
        Ok(Self {
            kind: ManifestKind::Sums,
            has_manifest: !names.is_empty(),
            algorithm: names.first().map(Name::algorithm),
            names,
            own,
            copied: separated.copied,
            newest,
            newest_manifest,
            damaged: opening.damaged,
            inputs: opening.inputs.finish()?,
            older: Vec::new(),
            compared_algorithms: AlgorithmSet::default(),
            kept_histories: Vec::new(),
            history: None,
            journals: opening.journals,
            stale,
        })
    }
}

/// The journals in the root of a tree.
pub(super) struct Journals {
    pub(super) with_entries: Vec<(LeftJournal, Header)>,
    /// Journals of runs that were killed before they did anything.
    pub(super) stale: Vec<LeftJournal>,
}

/// An archive that is being opened.
pub(super) struct Opening<'a> {
    kind: ManifestKind,
    root: BorrowedFd<'a>,
    converts_paths: bool,
    pub(super) damaged: Vec<DamagedFile>,
    pub(super) inputs: InputsBuilder,
    /// The journals among the inputs.
    pub(super) journals: Vec<LeftJournal>,
    /// The names of the manifests of this tree, and of the files with their comments.
    own_files: HashSet<Vec<u8>>,
}

impl<'a> Opening<'a> {
    pub(super) fn of(kind: ManifestKind, root: BorrowedFd<'a>, converts_paths: bool) -> Self {
        Self {
            kind,
            root,
            converts_paths,
            damaged: Vec::new(),
            inputs: InputsBuilder::default(),
            journals: Vec::new(),
            own_files: HashSet::new(),
        }
    }
}

impl Opening<'_> {
    /// Finds the journals of runs that would have written a manifest of this kind.
    pub(super) fn find_journals(&mut self, verify: Verify) -> io::Result<Journals> {
        let (mut with_entries, mut stale) = (Vec::new(), Vec::new());
        for name in journals_in(self.root)? {
            let journal = LeftJournal::new(name);
            match self.entries_of(&journal)? {
                // It is closed here and opened again later: there may be more journals than the
                // process may have descriptors.
                Ok(Some((header, _))) if header.kind == self.kind => {
                    with_entries.push((journal, header));
                }
                Ok(Some(_)) => {}
                Ok(None) => stale.push(journal),
                // A run that ends while this one verifies removes its journal.
                Err(damage) if verify == Verify::All && damage.is_not_found() => {}
                Err(damage) => self.add_damage(&journal, damage),
            }
        }
        Ok(Journals {
            with_entries,
            stale,
        })
    }

    /// Begins to read a journal. One that is not found but still listed is opened again, as no
    /// other run has removed it.
    ///
    /// # Errors
    ///
    /// The root cannot be listed.
    fn entries_of(
        &self,
        journal: &LeftJournal,
    ) -> io::Result<Result<Option<HeaderAndEntries>, Damage>> {
        let entries = journal.entries(self.root);
        if !matches!(&entries, Err(damage) if damage.is_not_found()) {
            return Ok(entries);
        }
        let listed = journals_in(self.root)?;
        let is_listed = listed.iter().any(|name| journal.has(name.to_bytes()));
        Ok(if is_listed {
            journal.entries(self.root)
        } else {
            entries
        })
    }

    /// Adds all journals and manifests, the newest first. Both are sorted already. Manifests that
    /// another one includes are only verified, and only if `verify` asks for that.
    fn add_all(
        &mut self,
        journals: Vec<(LeftJournal, Header)>,
        candidates: Vec<Candidate>,
        verify: Verify,
    ) -> io::Result<()> {
        let mut journals = journals.into_iter().peekable();
        let mut included = HashSet::new();
        for candidate in candidates {
            while let Some((journal, _)) =
                journals.next_if(|(_, header)| Some(header.time) > candidate.time())
            {
                self.add_journal(journal, verify, |path| path)?;
            }
            let is_included = candidate
                .included()
                .is_some_and(|own| included.contains(&own));
            if let Ok(Some(header)) = &candidate.header {
                included.extend(header.includes.iter().copied());
            }
            if !is_included {
                self.add(&candidate)?;
            } else if verify == Verify::All
                && let Err(damage) = candidate.verify(self.root, self.origin_of(&candidate))
            {
                self.add_damage(&candidate.name, damage);
            }
        }
        for (journal, _) in journals {
            self.add_journal(journal, verify, |path| path)?;
        }
        Ok(())
    }

    /// Adds the entries of a journal. `path` makes the path of the record.
    pub(super) fn add_journal(
        &mut self,
        journal: LeftJournal,
        verify: Verify,
        path: impl Fn(Vec<u8>) -> Vec<u8>,
    ) -> io::Result<()> {
        let mut entries = match self.entries_of(&journal)? {
            Ok(Some((_, entries))) => entries,
            // It could be read a moment ago.
            Ok(None) => {
                self.add_damage(&journal, Damage::Cut);
                return Ok(());
            }
            Err(damage) if verify == Verify::All && damage.is_not_found() => return Ok(()),
            Err(damage) => {
                self.add_damage(&journal, damage);
                return Ok(());
            }
        };
        self.inputs.sort(|| {
            let next = entries.next()?;
            Ok(next.map(|(found, entry)| (path(found), entry)))
        })?;
        if entries.is_damaged() {
            self.add_damage(&journal, Damage::Altered);
        }
        self.journals.push(journal);
        Ok(())
    }

    /// Verifies a manifest and adds its lines.
    fn add(&mut self, candidate: &Candidate) -> io::Result<()> {
        let origin = self.origin_of(candidate);
        let order = match candidate.verify(self.root, origin) {
            Ok(order) => order,
            Err(damage) => {
                self.add_damage(&candidate.name, damage);
                Order::Unsorted
            }
        };
        let Some(contents) = self.contents_of(candidate) else {
            return Ok(());
        };
        // Only the newest manifest is read as it is: every other one would hold a descriptor.
        if order == Order::Sorted && self.inputs.is_empty() {
            self.inputs.add_sorted_lines(contents, origin);
            return Ok(());
        }
        let has = |_: &[u8], file| Some(JournalEntry::Has(file));
        self.inputs.add_lines(&contents, origin, has)
    }

    /// Adds the lines of a manifest that came from a source. They count for files that exist and
    /// have no other record: if this tree was put together by hand, the manifest may list a part of
    /// it that the tree's own manifests do not list. A line for a manifest of this tree is one of
    /// another manifest that has the same name.
    fn add_copied(&mut self, candidate: &Candidate) -> io::Result<()> {
        if matches!(candidate.header, Err(Damage::NotRegular(_))) {
            // The source has a symbolic link or a special file of this name, and so has the copy.
            return Ok(());
        }
        let Some(contents) = self.contents_of(candidate) else {
            return Ok(());
        };
        let own = &self.own_files;
        let if_it_exists = |path: &[u8], file| {
            let announced = JournalEntry::Announced(Announced::Adds(file));
            (!own.contains(path)).then_some(announced)
        };
        let origin = self.origin_of(candidate);
        self.inputs.add_lines(&contents, origin, if_it_exists)
    }

    /// Opens a manifest, which is damaged if that fails.
    fn contents_of(&mut self, candidate: &Candidate) -> Option<FileRanges> {
        match candidate.contents(self.root) {
            Ok(contents) => Some(contents),
            Err(error) => {
                let name = candidate.name.to_string();
                if self.damaged.iter().all(|damaged| damaged.name != name) {
                    self.add_damage(&name, Damage::Unreadable(error));
                }
                None
            }
        }
    }

    fn origin_of(&self, candidate: &Candidate) -> Origin {
        Origin {
            algorithm: candidate.name.algorithm(),
            is_foreign: candidate.is_foreign(),
            converts_paths: self.converts_paths,
        }
    }

    pub(super) fn add_damage(&mut self, name: &impl ToString, damage: Damage) {
        let name = name.to_string();
        self.damaged.push(DamagedFile {
            name,
            damage,
            is_in_source: false,
        });
    }
}
