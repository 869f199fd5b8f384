//! The manifests of a tree: which files they are, which of them count, and whether they are whole.
//!
//! Every run of `zc-dircopy` leaves a manifest that holds the lines of all earlier ones. A tree may
//! also hold manifests that others wrote, and manifests that are files like others, because they
//! came from a source that is an archive itself.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::candidate::{Candidate, Order};
use super::contents::Contents;
use super::copied::separate_copied;
use super::damage::Damage;
use super::journal::Left;
use super::journal_entry::JournalEntry;
use super::lines::Lines;
use super::merge::{Records, Sorted};
use super::metadata::{Copied, Header, Included};
use super::name::Name;
use super::record::{self, Announced, FileDigest, LineReader, Listed, Origin};
use super::root_names::{journals_in, names_in};
use super::spool::{Piece, PieceReader, Spool};
use crate::digest::Algorithm;
use crate::dircopy::time::Time;

/// The manifests of a tree.
#[derive(Debug)]
pub(crate) struct Archive {
    /// The names of the manifests of this tree, the newest first.
    names: Vec<Name>,
    /// The same manifests, as a new one includes them.
    own: Vec<Included>,
    /// Files that have the name of a manifest and came from a source.
    copied: Vec<Copied>,
    newest: Option<Timestamp>,
    converts_paths: bool,
    damaged: Vec<(String, Damage)>,
    /// The manifests that no other one includes, the newest first.
    inputs: Vec<Input>,
    spool: Option<Arc<File>>,
    /// Journals of runs that were killed.
    journals: Vec<Left>,
    /// Journals whose entries stand in a manifest, or that have none.
    stale: Vec<Left>,
}

/// Where the records of a manifest are read.
#[derive(Debug)]
enum Input {
    Lines(Contents, Origin),
    Piece(Piece),
}

/// Which manifests are read to their end and verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Those that no other one includes.
    Needed,
    /// All of them.
    All,
}

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
        let (mut journals, mut stale) = (Vec::new(), Vec::new());
        let mut damaged = Vec::new();
        for name in journals_in(root)? {
            let left = Left::new(name);
            match left.entries(root) {
                // It is opened again when its turn comes: there may be more of them than descriptors.
                Ok(Some((header, _))) => journals.push((left, header)),
                // Nothing was done before the run was killed.
                Ok(None) => stale.push(left),
                // A run that ends while this one verifies removes its journal.
                Err(Damage::Unreadable(error))
                    if verify == Verify::All && error.kind() == io::ErrorKind::NotFound => {}
                Err(damage) => damaged.push((left.to_string(), damage)),
            }
        }
        // A run that ends meanwhile removes its journal when its manifest has a name.
        let mut candidates = Vec::new();
        for name in names_in(root)? {
            candidates.push(Candidate::read(root, name));
        }
        let in_journals = journals.iter().flat_map(|(_, header)| &header.copied);
        let (copied, mut disowned) = separate_copied(root, &mut candidates, in_journals);
        candidates.sort_by_key(|candidate| Reverse(candidate.age()));
        disowned.sort_by_key(|candidate| Reverse(candidate.age()));
        let mut archive = Self {
            names: candidates.iter().map(|candidate| candidate.name).collect(),
            own: candidates.iter().filter_map(Candidate::included).collect(),
            copied,
            converts_paths,
            newest: journals
                .iter()
                .map(|(_, header)| Some(header.time))
                .chain([candidates.first().and_then(Candidate::time)])
                .max()
                .flatten(),
            damaged,
            inputs: Vec::new(),
            spool: None,
            journals: Vec::new(),
            stale: Vec::new(),
        };
        let mut included = HashSet::new();
        let mut spool = None;
        for candidate in &candidates {
            if let Ok(Some(header)) = &candidate.header {
                let is_included = |left: &Left| header.journals.iter().any(|name| left.has(name));
                let included = journals.extract_if(.., |(left, _)| is_included(left));
                stale.extend(included.map(|(left, _)| left));
            }
        }
        journals.sort_by_key(|(_, header)| Reverse(header.time));
        let mut journals = journals.into_iter().peekable();
        for candidate in candidates {
            // The newest comes first.
            while let Some((left, _)) =
                journals.next_if(|(_, header)| Some(header.time) > candidate.time())
            {
                archive.add_journal(root, left, &mut spool)?;
            }
            let is_included = candidate
                .included()
                .is_some_and(|own| included.contains(&own));
            if let Ok(Some(header)) = &candidate.header {
                included.extend(header.includes.iter().copied());
            }
            if !is_included {
                archive.add(root, &candidate, &mut spool)?;
            } else if verify == Verify::All {
                let name = candidate.name;
                let damage = candidate.survey(root, archive.origin_of(&candidate)).err();
                let name = name.to_string();
                archive.damaged.extend(damage.map(|damage| (name, damage)));
            }
        }
        for (left, _) in journals {
            archive.add_journal(root, left, &mut spool)?;
        }
        for candidate in disowned {
            archive.add_disowned(root, &candidate, &mut spool)?;
        }
        archive.spool = spool.map(Spool::finish).transpose()?;
        archive.stale = stale;
        Ok(archive)
    }

    /// Adds the entries of a journal.
    fn add_journal(
        &mut self,
        root: BorrowedFd<'_>,
        left: Left,
        spool: &mut Option<Spool>,
    ) -> io::Result<()> {
        let mut entries = match left.entries(root) {
            Ok(Some((_, entries))) => entries,
            // It could be read a moment ago.
            other => {
                let damage = other.err().unwrap_or(Damage::Cut);
                self.damaged.push((left.to_string(), damage));
                return Ok(());
            }
        };
        let spool = match spool {
            Some(spool) => spool,
            None => spool.insert(Spool::new()?),
        };
        let pieces = spool.sort(|| entries.next())?;
        let pieces = pieces.into_iter().rev().map(Input::Piece);
        self.inputs.extend(pieces);
        if entries.is_damaged() {
            self.damaged.push((left.to_string(), Damage::Altered));
        }
        self.journals.push(left);
        Ok(())
    }

    /// Verifies a manifest and adds its records.
    fn add(
        &mut self,
        root: BorrowedFd<'_>,
        candidate: &Candidate,
        spool: &mut Option<Spool>,
    ) -> io::Result<()> {
        let name = candidate.name;
        let surveyed = candidate.survey(root, self.origin_of(candidate));
        let is_direct = self.inputs.is_empty() && matches!(surveyed, Ok(Order::Sorted));
        if let Err(damage) = surveyed {
            self.damaged.push((name.to_string(), damage));
        }
        let Some(contents) = self.contents_of(candidate, root) else {
            return Ok(());
        };
        let origin = self.origin_of(candidate);
        if is_direct {
            self.inputs.push(Input::Lines(contents, origin));
            return Ok(());
        }
        self.add_lines(&contents, origin, JournalEntry::Has, spool)
    }

    /// Adds the lines of a manifest that came from a source. They count for files that exist and of
    /// which nothing else is known: the manifest may speak of a part of this tree that its own
    /// manifests do not know, if this tree was put together by hand.
    fn add_disowned(
        &mut self,
        root: BorrowedFd<'_>,
        candidate: &Candidate,
        spool: &mut Option<Spool>,
    ) -> io::Result<()> {
        if matches!(candidate.header, Err(Damage::NotRegular(_))) {
            // The source has a symbolic link or a special file of this name, and so has the copy.
            return Ok(());
        }
        let Some(contents) = self.contents_of(candidate, root) else {
            return Ok(());
        };
        let if_it_exists = |file| JournalEntry::Announced(Announced::Adds(file));
        let origin = self.origin_of(candidate);
        self.add_lines(&contents, origin, if_it_exists, spool)
    }

    /// Opens a manifest, which is damaged if that fails.
    fn contents_of(&mut self, candidate: &Candidate, root: BorrowedFd<'_>) -> Option<Contents> {
        let name = candidate.name.to_string();
        match candidate.contents(root) {
            Ok(contents) => Some(contents),
            Err(error) => {
                if self.damaged.iter().all(|(damaged, _)| *damaged != name) {
                    self.damaged.push((name, Damage::Unreadable(error)));
                }
                None
            }
        }
    }

    /// Sorts lines on disk.
    fn add_lines(
        &mut self,
        contents: &Contents,
        origin: Origin,
        entry: impl Fn(FileDigest) -> JournalEntry,
        spool: &mut Option<Spool>,
    ) -> io::Result<()> {
        let spool = match spool {
            Some(spool) => spool,
            None => spool.insert(Spool::new()?),
        };
        let mut lines = Lines::of(contents.reader());
        let next = || {
            let listed = parse_next(&mut lines, origin)?;
            Ok(listed.map(|listed| (listed.path, entry(listed.file))))
        };
        let pieces = spool.sort(next)?;
        // The last line for a path counts.
        let pieces = pieces.into_iter().rev().map(Input::Piece);
        self.inputs.extend(pieces);
        Ok(())
    }

    fn origin_of(&self, candidate: &Candidate) -> Origin {
        Origin {
            algorithm: candidate.name.algorithm(),
            is_foreign: candidate.is_foreign(),
            converts_paths: self.converts_paths,
        }
    }

    /// The manifests that cannot be believed.
    pub(crate) fn damaged(&self) -> &[(String, Damage)] {
        &self.damaged
    }

    /// Whether the tree has no manifest, and no journal.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.journals.is_empty()
    }

    /// Whether runs were killed that have left journals.
    pub(crate) fn has_journals(&self) -> bool {
        !self.journals.is_empty()
    }

    /// Removes the journals whose entries stand in a manifest. `is_finished` tells that a new
    /// manifest has all of them.
    pub(crate) fn remove_journals(&mut self, root: BorrowedFd<'_>, is_finished: bool) {
        if is_finished {
            self.stale.append(&mut self.journals);
        }
        for left in self.stale.drain(..) {
            left.remove(root);
        }
    }

    /// Whether a file in the root is a manifest of this tree, or the comments of one.
    pub(crate) fn owns(&self, name: &[u8]) -> bool {
        let Ok(name) = str::from_utf8(name) else {
            return false;
        };
        let (manifest, is_info) = match name.strip_suffix(super::INFO) {
            Some(manifest) => (manifest, true),
            None => (name, false),
        };
        manifest.parse::<Name>().is_ok_and(|manifest| {
            let may_have_info = manifest.algorithm() == Algorithm::Blake3;
            self.names.contains(&manifest) && (may_have_info || !is_info)
        })
    }

    /// The names of all files in the root that are manifests of this tree, or may be the comments of
    /// one.
    pub(crate) fn file_names(&self) -> impl Iterator<Item = String> {
        let with_info = |name: &Name| [name.to_string(), format!("{name}{}", super::INFO)];
        self.names.iter().flat_map(with_info)
    }

    /// Whether a manifest tells that this file came from a source.
    pub(crate) fn knows_copied(&self, copied: &Copied) -> bool {
        self.copied.contains(copied)
    }

    /// Whether the newest manifest was begun after this time.
    pub(crate) fn is_newer_than(&self, time: Time) -> bool {
        self.newest
            .is_some_and(|newest| newest.as_second() > time.seconds)
    }

    /// The algorithm of the newest manifest.
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        Some(self.names.first()?.algorithm())
    }

    /// The newest record of every path that any manifest knows.
    ///
    /// # Errors
    ///
    /// A manifest cannot be read.
    pub(crate) fn records(&self) -> io::Result<Records> {
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            match (input, &self.spool) {
                (Input::Lines(contents, origin), _) => {
                    let lines = LineReader::new(contents.reader(), *origin);
                    inputs.push(Sorted::Lines(lines));
                }
                (Input::Piece(piece), Some(spool)) => {
                    inputs.push(Sorted::Piece(PieceReader::new(spool, piece.clone())));
                }
                // Pieces stand in the spool.
                (Input::Piece(_), None) => {}
            }
        }
        Records::merge(inputs)
    }

    /// The header of a new manifest, which holds the lines of all that there are.
    ///
    /// `copied` are the files in the root of the source that have the name of a manifest.
    pub(crate) fn next_header(&self, source: Vec<u8>, mut copied: Vec<Copied>) -> Header {
        let mut time = Timestamp::now();
        if let Some(newest) = self.newest
            && time <= newest
        {
            // The clock was set back.
            let later = newest.checked_add(SignedDuration::from_nanos(2));
            time = later.unwrap_or(newest);
        }
        for known in &self.copied {
            if copied.iter().all(|copied| copied.name != known.name) {
                copied.push(*known);
            }
        }
        Header {
            time,
            source,
            includes: self.own.clone(),
            journals: self
                .journals
                .iter()
                .map(|left| left.name().to_vec())
                .collect(),
            copied,
        }
    }
}

/// The next line that is well-formed.
fn parse_next<R: Read>(lines: &mut Lines<R>, origin: Origin) -> io::Result<Option<Listed>> {
    loop {
        let Some(line) = lines.next()? else {
            return Ok(None);
        };
        let parsed = line.and_then(|line| record::parse(&line, origin));
        if let Ok(listed) = parsed {
            return Ok(Some(listed));
        }
    }
}

#[cfg(test)]
mod tests;
