//! What earlier runs recorded of the entries that a walk gives.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use super::damage_map::map_path;
use super::manifest::archive::Archive;
use super::manifest::journal::is_journal;
use super::manifest::merge::Records;
use super::manifest::record::{Announced, FileDigest, Record};
use super::time::Time;
use super::tree::{Directory, Entry};

/// When an original was modified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Modified {
    /// It is a newer version than any that is recorded.
    #[default]
    AfterRecords,
    /// It was modified before the newest manifest was begun, so that its record may be of this
    /// version.
    BeforeRecords,
}

/// What a file is that has the name of a map of damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MapFile {
    /// Nothing is recorded of it.
    #[default]
    Unrecorded,
    /// It is recorded, and so is a file like others, whatever it holds.
    Recorded,
}

/// What is known of an entry before it is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// The digest that its copy was recorded with.
    pub(super) recorded: Option<FileDigest>,
    /// What a run that was killed may have done to the copy.
    pub(super) announced: Option<Announced>,
    pub(super) modified: Modified,
    /// Whether its copy is recorded as it is, whatever was recorded before.
    pub(super) is_accepted: bool,
    /// Whether the destination has a manifest of its own by this name.
    pub(super) is_manifest: bool,
    /// What the file beside its copy is that has the name of a map.
    pub(super) map_file: MapFile,
    /// Whether it is the journal of a run that copied to the source.
    pub(super) is_journal: bool,
}

impl Known {
    /// The digests of which the copy has to have one. If there are none, it may have any.
    pub(super) fn expected(&self) -> Vec<FileDigest> {
        match self.announced {
            None => self.recorded.into_iter().collect(),
            // Nothing had the name, so that whatever has it now is the new file.
            Some(Announced::Adds(new)) => vec![new],
            Some(Announced::Replaces(new)) => self.recorded.into_iter().chain([new]).collect(),
            Some(Announced::Clears) => Vec::new(),
        }
    }

    /// Whether only reading the copy tells what it has to be.
    pub(super) fn is_doubtful(&self) -> bool {
        matches!(
            self.announced,
            Some(Announced::Replaces(_) | Announced::Clears)
        )
    }
}

/// Finds the records of entries. These come in the order of their paths, and so do records.
#[derive(Debug)]
pub(super) struct Lookup<'a> {
    archive: &'a Archive,
    accepted: &'a BTreeSet<Vec<u8>>,
    root: Arc<Directory>,
    records: Cursor,
    /// For names of maps, once there are some.
    maps: Option<Cursor>,
}

/// Finds records of paths, most of which come in their order.
#[derive(Debug)]
struct Cursor {
    records: Records,
    /// The path that was asked for last.
    last: Vec<u8>,
}

impl Cursor {
    fn new(archive: &Archive) -> io::Result<Self> {
        Ok(Self {
            records: archive.records()?,
            last: Vec::new(),
        })
    }

    fn find(&mut self, path: &[u8], archive: &Archive) -> io::Result<Option<Record>> {
        if *path < *self.last {
            // The tree changed while its names were read, so that it is not in order.
            self.records = archive.records()?;
        }
        self.last.clear();
        self.last.extend_from_slice(path);
        self.records.find(path)
    }
}

impl<'a> Lookup<'a> {
    /// # Errors
    ///
    /// A manifest cannot be read.
    pub(super) fn new(
        archive: &'a Archive,
        accepted: &'a BTreeSet<Vec<u8>>,
        root: &Arc<Directory>,
    ) -> io::Result<Self> {
        Ok(Self {
            archive,
            accepted,
            root: Arc::clone(root),
            records: Cursor::new(archive)?,
            maps: None,
        })
    }

    /// What is known of the next entry.
    ///
    /// # Errors
    ///
    /// A manifest cannot be read.
    pub(super) fn find(&mut self, entry: &Entry) -> io::Result<Known> {
        let is_in_root = Arc::ptr_eq(entry.directory(), &self.root);
        let is_journal = is_in_root && is_journal(entry.name().to_bytes());
        if self.archive.is_empty() && self.accepted.is_empty() {
            return Ok(Known {
                is_journal,
                ..Known::default()
            });
        }
        let path = entry.path();
        let path = path.as_os_str().as_bytes();
        let record = self.records.find(path, self.archive)?;
        let has_recorded_map = entry.may_have_map() && {
            let maps = match &mut self.maps {
                Some(maps) => maps,
                none => none.insert(Cursor::new(self.archive)?),
            };
            let map = maps.find(&map_path(path), self.archive)?;
            map.is_some_and(|map| map.may_have_file())
        };
        let modified = Time::modified(entry.stat());
        Ok(Known {
            recorded: record.as_ref().and_then(|record| record.file),
            announced: record.and_then(|record| record.announced),
            map_file: if has_recorded_map {
                MapFile::Recorded
            } else {
                MapFile::Unrecorded
            },
            is_journal,
            modified: if self.archive.is_newer_than(modified) {
                Modified::BeforeRecords
            } else {
                Modified::AfterRecords
            },
            is_accepted: self.accepted.contains(path),
            is_manifest: is_in_root && self.archive.owns(path),
        })
    }
}
