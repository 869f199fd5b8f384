//! Finds names that a destination does not tell apart.
//!
//! FAT, exFAT, NTFS with `ignore_case`, HFS+ and ext4 with `casefold` take `README` and `readme`
//! for one name; HFS+ also takes composed and decomposed letters for the same. Two files of a
//! source would get one copy there, and the later one would replace the recorded copy of the
//! earlier one.
//!
//! The walk lists every directory of the destination anyway. If `fstatat(2)` finds a name that was
//! not listed, it has found another spelling, or a file that was made since. If a name was listed
//! but is not recorded, another spelling of it may be recorded: the records are read only if
//! `fstatat(2)` finds another spelling. Other file systems pay nothing for recorded files, and a
//! few calls for each other file.
//!
//! - `index`: the recorded paths, by hash.
//! - `owner`: the name that a file belongs to (pure).
//! - `recorded`: the recorded paths themselves, for reports.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::FileType;
use rustix::io::Errno;

use super::manifest::read::archive::Archive;
use super::schedule::lookup::PriorRecord;
use super::walk::spelling::{Spellings, each_name, is_folded, is_same, key, stat};
use super::walk::{CollidingName, CollisionCheck, Directory, Entry, Exclude, OpenDirs, OtherName};
use index::Index;
use owner::{Collision, Facts, Listed, Listing, Owner, Recorded, owner};
use recorded::RecordedPaths;

mod index;
mod owner;
mod recorded;

/// Finds names that the destination does not tell apart.
#[derive(Debug)]
pub(crate) struct FoldedNames<'a> {
    archive: &'a Archive,
    exclude: &'a Exclude,
    /// Made by the first call that needs it.
    index: Mutex<Option<Index>>,
    recorded: Mutex<RecordedPaths>,
}

impl<'a> FoldedNames<'a> {
    pub(crate) fn new(archive: &'a Archive, exclude: &'a Exclude) -> Self {
        Self {
            archive,
            exclude,
            index: Mutex::new(None),
            recorded: Mutex::default(),
        }
    }

    /// Finds out whether the file of an entry's name in the destination belongs to another name.
    ///
    /// # Errors
    ///
    /// A directory or the manifests cannot be read.
    pub(crate) fn of_entry(
        &self,
        entry: &Entry,
        prior: PriorRecord,
    ) -> io::Result<Option<OtherName>> {
        let (directory, name) = (&**entry.directory(), entry.name());
        let is_recorded = prior.is_accepted || !prior.expected().is_empty();
        let has_records = !self.archive.is_empty();
        match directory.was_listed(name) {
            None => Ok(None),
            Some(true) if is_recorded || !has_records => Ok(None),
            Some(true) if !has_variant(directory, entry.opened(), name) => Ok(None),
            Some(was_listed) => self.find(directory, entry.opened(), name, was_listed, || {
                Ok(is_recorded)
            }),
        }
    }

    fn find(
        &self,
        directory: &Directory,
        opened: &OpenDirs,
        name: &CStr,
        was_listed: bool,
        is_recorded: impl FnOnce() -> io::Result<bool>,
    ) -> io::Result<Option<OtherName>> {
        let path = directory.path_of(name);
        let path = path.as_os_str().as_bytes();
        let is_other_recorded =
            !self.archive.is_empty() && self.with_index(|index| index.has_other(path))?;
        let colliding = if was_listed && !is_other_recorded {
            Vec::new()
        } else {
            self.colliding(directory, opened, name)?
        };
        if colliding.is_empty() && !is_other_recorded {
            return Ok(None);
        }
        let destination = opened.destination().as_fd();
        let listed = spellings(directory, opened, name, &colliding)?;
        if !is_folded(destination, name, &listed, &colliding) {
            return Ok(None);
        }
        let colliding = colliding
            .iter()
            .find(|colliding| is_same(destination, name, colliding, &listed));
        let is_new = |name: &CString| directory.was_listed(name) == Some(false);
        let recorded = match (is_recorded()?, is_other_recorded) {
            (false, false) => Recorded::None,
            (true, false) => Recorded::This,
            (false, true) => Recorded::Other,
            (true, true) => Recorded::Both,
        };
        let facts = Facts {
            listed: if was_listed {
                Listed::AsItIs
            } else if listed.names.iter().any(is_new) {
                Listed::Since
            } else {
                Listed::Otherwise
            },
            recorded,
            colliding: match colliding {
                None => Collision::None,
                Some(_) => Collision::InSource,
            },
            listing: if was_listed && !directory.keeps_case(opened) {
                Listing::Folds
            } else {
                Listing::Keeps
            },
        };
        match owner(facts) {
            Owner::This => Ok(None),
            Owner::Other => {
                let of = |name: &CString| directory.path_of(name).into_os_string();
                let other = match colliding {
                    Some(colliding) => Some(of(colliding)),
                    None => listed
                        .names
                        .iter()
                        .find(|listed| ***listed != *name)
                        .map(of),
                };
                let other = match other {
                    Some(other) => other.as_bytes().to_vec(),
                    None => self.recorded_as(path)?,
                };
                Ok(Some(OtherName::new(other)))
            }
        }
    }

    /// Other names in the source that the destination may not tell from this one.
    fn colliding(
        &self,
        directory: &Directory,
        opened: &OpenDirs,
        name: &CStr,
    ) -> io::Result<Vec<CString>> {
        let all = directory.colliding(|| {
            let mut keys = Vec::new();
            each_name(opened.source(), |name, _| {
                keys.push(key::hash(name.to_bytes()));
            })?;
            keys.sort_unstable();
            let mut repeated: Vec<u64> = keys
                .windows(2)
                .filter(|pair| pair[0] == pair[1])
                .map(|pair| pair[0])
                .collect();
            drop(keys);
            repeated.dedup();
            let mut colliding = Vec::new();
            if !repeated.is_empty() {
                each_name(opened.source(), |name, kind| {
                    let key = key::hash(name.to_bytes());
                    if repeated.binary_search(&key).is_ok() && !self.excludes(directory, name, kind)
                    {
                        let name = name.to_owned();
                        colliding.push(CollidingName { key, name });
                    }
                })?;
            }
            colliding.sort_unstable();
            Ok(colliding)
        })?;
        let key = key::hash(name.to_bytes());
        let begin = all.partition_point(|colliding| colliding.key < key);
        let others = all[begin..]
            .iter()
            .take_while(|colliding| colliding.key == key);
        let others = others.map(|colliding| colliding.name.clone());
        Ok(others.filter(|other| **other != *name).collect())
    }

    fn excludes(&self, directory: &Directory, name: &CStr, kind: FileType) -> bool {
        let os_name = OsStr::from_bytes(name.to_bytes());
        let is_directory = kind == FileType::Directory;
        self.exclude
            .matches(os_name, is_directory, || directory.path_of(name))
    }

    fn with_index<T>(&self, ask: impl FnOnce(&Index) -> T) -> io::Result<T> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match &mut *index {
            Some(index) => index,
            none => none.insert(Index::of(self.archive)?),
        };
        Ok(ask(index))
    }

    /// A recorded path that the destination may not tell from this one.
    fn recorded_as(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let other = recorded.other(self.archive, path)?;
        Ok(other.unwrap_or_else(|| key::fold_path(path)))
    }
}

impl CollisionCheck for FoldedNames<'_> {
    fn of_directory(
        &self,
        parent: &Directory,
        opened: &OpenDirs,
        name: &CStr,
    ) -> io::Result<Option<OtherName>> {
        match parent.was_listed(name) {
            None => Ok(None),
            Some(true) if self.archive.is_empty() || !has_variant(parent, opened, name) => Ok(None),
            Some(was_listed) => self.find(parent, opened, name, was_listed, || {
                let path = parent.path_of(name);
                self.with_index(|index| index.has(path.as_os_str().as_bytes()))
            }),
        }
    }

    fn has_record(&self, path: &Path) -> bool {
        let path = path.as_os_str().as_bytes();
        !self.archive.is_empty() && self.with_index(|index| index.has(path)).unwrap_or(true)
    }
}

/// Whether a directory finds a name by another spelling that was not listed.
fn has_variant(directory: &Directory, opened: &OpenDirs, name: &CStr) -> bool {
    let is_found = |variant: &CString| {
        directory.was_listed(variant) == Some(false)
            && stat(opened.destination().as_fd(), variant).is_some()
    };
    key::variants(name).iter().any(is_found)
}

/// The names in a directory that it may not tell from this one.
fn spellings(
    directory: &Directory,
    opened: &OpenDirs,
    name: &CStr,
    colliding: &[CString],
) -> Result<Spellings, Errno> {
    // Other threads may create the rivals in the meantime. Without rivals the kept list is still
    // true.
    if colliding.is_empty() {
        let kept = directory.foldable_names(opened)?.spellings(name);
        if !kept.names.is_empty() {
            return Ok(kept);
        }
    }
    Spellings::list(opened.destination().as_fd(), name)
}
