//! The manifests of a tree, and the journals that killed runs have left there.
//!
//! Every run of `zc-dircopy` leaves a manifest that holds the lines of all earlier ones. A tree may
//! also hold manifests that others wrote, and manifests that are files like others, because they
//! came from a source that is an archive itself.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use jiff::{SignedDuration, Timestamp};

use super::damage::Damage;
use super::merge::Records;
use crate::common::digest::{Algorithm, AlgorithmSet};
use crate::dircopy::manifest::bag::{self, PathBase};
use crate::dircopy::manifest::header::{Copied, Header, Included};
use crate::dircopy::manifest::journal::LeftJournal;
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::manifest::mhl::history::History;
use crate::dircopy::manifest::name::Name;
use crate::dircopy::mtime::{Granularity, Time};

use inputs::Inputs;

mod inputs;
mod opening;
mod opening_bag;
mod opening_mhl;
mod two_histories;

/// How far file times may be behind the clock that manifests take their times from: the kernel
/// takes file times at its last tick, which is up to 10 ms ago (`CONFIG_HZ=100`), and twice that
/// for safety.
const COARSE_CLOCK: SignedDuration = SignedDuration::from_millis(20);

/// The manifests of a tree.
#[derive(Debug)]
pub(crate) struct Archive {
    kind: ManifestKind,
    /// Whether the tree has a manifest.
    has_manifest: bool,
    /// The algorithm of the newest one.
    algorithm: Option<Algorithm>,
    /// The names of the manifests of this tree, the newest first.
    names: Vec<Name>,
    /// The same manifests, as a new one includes them.
    own: Vec<Included>,
    /// Files that have the name of a manifest and came from a source.
    copied: Vec<Copied>,
    /// When the newest manifest or journal was begun.
    newest: Option<Timestamp>,
    /// When the newest manifest was begun.
    newest_manifest: Option<Timestamp>,
    damaged: Vec<DamagedFile>,
    /// The lines of the manifests that no other one includes, and the entries of the journals.
    inputs: Inputs,
    /// Inputs that come after these: the files of the history, and those of another history.
    older: Vec<Inputs>,
    /// The functions that files are compared by with the other history.
    compared_algorithms: AlgorithmSet,
    /// The directories of histories below the root that no history of the source replaces.
    kept_histories: Vec<Vec<u8>>,
    /// The generations of ASC MHL.
    history: Option<History>,
    /// Journals of runs that were killed.
    journals: Vec<LeftJournal>,
    /// Journals without entries, or whose entries are in a manifest.
    stale: Vec<LeftJournal>,
}

/// A damaged manifest or journal.
#[derive(Debug)]
pub(crate) struct DamagedFile {
    pub(crate) name: String,
    pub(crate) damage: Damage,
    /// Whether it belongs to the history of the source.
    pub(crate) is_in_source: bool,
}

impl DamagedFile {
    /// Tells a damaged file from one that the user may not read.
    pub(crate) fn state(&self) -> FileState {
        match &self.damage {
            Damage::Unreadable(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                FileState::Denied
            }
            Damage::Unfinished => FileState::Unfinished,
            Damage::UnknownFunction => FileState::Unverifiable,
            _ => FileState::Damaged,
        }
    }
}

/// The state of a manifest or journal that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileState {
    Damaged,
    /// The user may not read it.
    Denied,
    /// A run has not written it yet.
    Unfinished,
    /// Its digests are of a function that this program lacks.
    Unverifiable,
}

impl fmt::Display for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Damaged => "is damaged",
            Self::Denied => "cannot be read",
            Self::Unfinished => "is not finished",
            Self::Unverifiable => "cannot be verified",
        })
    }
}

/// Which manifests are verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Those that no other one includes: their lines are read.
    Needed,
    /// All of them.
    All,
}

impl Archive {
    /// Finds the manifests of this kind in the root of a tree, and verifies them. The history of a
    /// source counts too.
    ///
    /// # Errors
    ///
    /// The root cannot be read; a temporary file cannot be written.
    pub(crate) fn open_kind(
        kind: ManifestKind,
        root: BorrowedFd<'_>,
        verify: Verify,
        converts_paths: bool,
        base: PathBase,
        source: Option<BorrowedFd<'_>>,
    ) -> io::Result<Self> {
        match kind {
            ManifestKind::Mhl => Self::open_mhl(root, verify, source),
            ManifestKind::Sums => Self::open(root, verify, converts_paths),
            ManifestKind::Bag => Self::open_bag(root, verify, base),
        }
    }

    /// The damaged manifests and journals.
    pub(crate) fn damaged(&self) -> &[DamagedFile] {
        &self.damaged
    }

    /// Whether the tree has no manifest, and no journal.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_manifest && self.journals.is_empty()
    }

    /// Whether killed runs have left journals.
    pub(crate) fn has_journals(&self) -> bool {
        !self.journals.is_empty()
    }

    /// Removes all journals. Call this once a new manifest has their entries.
    pub(crate) fn remove_journals(&mut self, root: BorrowedFd<'_>) {
        self.stale.append(&mut self.journals);
        self.remove_stale_journals(root);
    }

    /// Removes the journals without entries, and those whose entries are in a manifest.
    pub(crate) fn remove_stale_journals(&mut self, root: BorrowedFd<'_>) {
        for journal in self.stale.drain(..) {
            journal.remove(root);
        }
    }

    /// Whether a file in the root is a manifest of this tree, or the comments of one.
    pub(crate) fn owns(&self, name: &[u8]) -> bool {
        let Ok(name) = str::from_utf8(name) else {
            return false;
        };
        let (manifest, is_info) = match name.strip_suffix(crate::dircopy::manifest::INFO) {
            Some(manifest) => (manifest, true),
            None => (name, false),
        };
        manifest.parse::<Name>().is_ok_and(|manifest| {
            let may_have_info = manifest.algorithm() == Algorithm::Blake3;
            self.names.contains(&manifest) && (may_have_info || !is_info)
        })
    }

    /// The names of the manifests of this tree, and the names that the files with their comments
    /// have or would have.
    pub(crate) fn file_names(&self) -> impl Iterator<Item = String> {
        file_names(&self.names)
    }

    /// Whether a manifest says that this file came from a source.
    pub(crate) fn knows_copied(&self, copied: &Copied) -> bool {
        self.copied.contains(copied)
    }

    /// Whether the newest manifest was begun after a file with this time was modified. In doubt it
    /// was not: the time of a file may be earlier than the modification. The journal of a killed
    /// run does not count: that run may not have come to the file.
    pub(crate) fn is_newer_than(&self, modified: Time) -> bool {
        let rounded = match modified.coarsest_granularity() {
            Granularity::Seconds(seconds) => SignedDuration::from_secs(seconds),
            Granularity::Nanoseconds(nanoseconds) => SignedDuration::from_nanos(nanoseconds),
        };
        let begun = self.newest_manifest.map(Timestamp::as_duration);
        let time = SignedDuration::from_secs(modified.seconds)
            .saturating_add(SignedDuration::from_nanos(modified.nanoseconds))
            .saturating_add(rounded)
            .saturating_add(COARSE_CLOCK);
        begun.is_some_and(|begun| begun > time)
    }

    /// The algorithm of the newest manifest.
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.algorithm
    }

    /// Whether the manifests of this tree list the file with this path, or should.
    pub(crate) fn covers(&self, path: &[u8]) -> bool {
        match self.kind {
            ManifestKind::Sums => true,
            ManifestKind::Bag => path.starts_with(bag::PAYLOAD),
            ManifestKind::Mhl => {
                let history = self.history.as_ref();
                history.is_none_or(|history| history.covers(path))
            }
        }
    }

    /// The newest record of every path that any manifest or journal has.
    ///
    /// # Errors
    ///
    /// A manifest or a temporary file cannot be read.
    pub(crate) fn records(&self) -> io::Result<Records> {
        let mut sorted = self.inputs.sorted();
        for older in &self.older {
            sorted.extend(older.sorted());
        }
        Records::merge(sorted)
    }

    /// The history of ASC MHL and its records, without those of journals.
    ///
    /// # Errors
    ///
    /// The archive has no history, or a temporary file cannot be read.
    pub(crate) fn history(&self) -> io::Result<(History, Records)> {
        let history = self.history.as_ref().map(History::without_damage);
        let history = history.ok_or_else(|| io::Error::other("there is no history"))?;
        // Those of the other history are only compared.
        let older = self.older.iter().take(1);
        let sorted = older.flat_map(Inputs::sorted).collect();
        Ok((history, Records::merge(sorted)?))
    }

    /// The header of a new manifest that includes all manifests and journals.
    ///
    /// `in_source` are the files in the root of the source that have the name of a manifest. None
    /// of them replaces a manifest of this tree, so that the header names the others alone.
    pub(crate) fn next_header(&self, source: Vec<u8>, in_source: Vec<Copied>) -> Header {
        let mut time = Timestamp::now();
        if let Some(newest) = self.newest
            && time <= newest
        {
            // The clock was set back.
            let later = newest.checked_add(SignedDuration::from_nanos(2));
            time = later.unwrap_or(newest);
        }
        let mut copied = in_source;
        copied.retain(|copied| !self.names.contains(&copied.name));
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
                .map(|journal| journal.name().to_vec())
                .collect(),
            copied,
            kind: self.kind,
        }
    }
}

/// The names of manifests, and the names that the files with their comments have or would have.
fn file_names(manifests: &[Name]) -> impl Iterator<Item = String> {
    let with_info = |name: &Name| {
        [
            name.to_string(),
            format!("{name}{}", crate::dircopy::manifest::INFO),
        ]
    };
    manifests.iter().flat_map(with_info)
}

#[cfg(test)]
mod tests;
