//! Finds the records of the entries of a walk.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use crate::dircopy::damage_map::map_path;
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::journal::is_journal;
use crate::dircopy::manifest::read::archive::Archive;
use crate::dircopy::manifest::read::merge::Records;
use crate::dircopy::manifest::record::{Announced, Record};
use crate::dircopy::mtime::Time;
use crate::dircopy::walk::{Directory, Entry};
use crate::dircopy::write::atomic_file::Durability;

/// Whether an original was modified before or after its record was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Modified {
    /// It is newer than all records.
    #[default]
    AfterRecords,
    /// It was modified before the newest manifest was begun, so that its record may describe this
    /// version.
    BeforeRecords,
}

/// Whether a file with the name of a damage map has a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MapFile {
    /// It has no record, and may be a map.
    #[default]
    Unrecorded,
    /// It has a record, so that it is an ordinary file.
    Recorded,
}

/// Facts about an entry before it is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PriorRecord {
    /// The digest that its copy was recorded with.
    pub(crate) recorded: Option<FileDigest>,
    /// The change that a killed run may have made to the copy.
    pub(crate) announced: Option<Announced>,
    pub(crate) modified: Modified,
    /// Whether the copy is recorded as it is, in place of an earlier record.
    pub(crate) is_accepted: bool,
    /// Whether the destination has a manifest of its own by this name.
    pub(crate) is_manifest: bool,
    /// The file beside its copy with the name of its damage map.
    pub(crate) map_file: MapFile,
    /// Whether the entry is the journal of a run that copied to the source.
    pub(crate) is_journal: bool,
}

impl PriorRecord {
    /// The digests that the copy may have. If the list is empty, it may have any.
    pub(crate) fn expected(&self) -> Vec<FileDigest> {
        match self.announced {
            None => self.recorded.into_iter().collect(),
            // No file had the name before, so that the present one is the new one.
            Some(Announced::Adds(new)) => vec![new],
            Some(Announced::Replaces(new)) => self.recorded.into_iter().chain([new]).collect(),
            Some(Announced::Clears) => Vec::new(),
        }
    }

    /// How an announcement of this change is written to the journal: it is synced if the file may
    /// have another digest afterwards than its record says. Otherwise a loss of power could leave
    /// the new file with the old record.
    pub(crate) fn durability_of(&self, announced: Announced, durability: Durability) -> Durability {
        let is_as_recorded = match (self.recorded, announced) {
            (None, _) => true,
            (Some(_), Announced::Clears) => false,
            (Some(old), Announced::Adds(new) | Announced::Replaces(new)) => old.agrees_with(new),
        };
        let replaces = matches!(announced, Announced::Replaces(_) | Announced::Clears);
        if !is_as_recorded
            || self.announced.is_some()
            || replaces && durability == Durability::Synced
        {
            Durability::Synced
        } else {
            Durability::Cached
        }
    }

    /// Whether the copy must be read to find out which digest it should have.
    pub(crate) fn is_doubtful(&self) -> bool {
        matches!(
            self.announced,
            Some(Announced::Replaces(_) | Announced::Clears)
        )
    }
}

/// Finds the records of entries. Both are in the order of their paths.
#[derive(Debug)]
pub(crate) struct Lookup<'a> {
    archive: &'a Archive,
    accepted: &'a BTreeSet<Vec<u8>>,
    root: Arc<Directory>,
    records: Cursor,
    /// Finds the records of damage maps. Made for the first name of one.
    maps: Option<Cursor>,
}

/// Finds records of paths. Paths in ascending order read the records once.
#[derive(Debug)]
struct Cursor {
    records: Records,
    /// The path of the last call.
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
            // The tree has changed while it was read, so that its paths are not in order.
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
    pub(crate) fn new(
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

    /// Finds the facts about the next entry.
    ///
    /// # Errors
    ///
    /// A manifest cannot be read.
    pub(crate) fn find(&mut self, entry: &Entry) -> io::Result<PriorRecord> {
        let is_in_root = Arc::ptr_eq(entry.directory(), &self.root);
        let is_journal = is_in_root && is_journal(entry.name().to_bytes());
        if self.archive.is_empty() && self.accepted.is_empty() {
            return Ok(PriorRecord {
                is_journal,
                ..PriorRecord::default()
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
        Ok(PriorRecord {
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
