//! Lists the files and directories of a tree.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;

use anyhow::anyhow;
use jiff::Timestamp;
use rustix::fs::Stat;

use super::elements::{date, write_checksum, write_digests, write_path};
use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::common::digest::AlgorithmSet;
use crate::common::digest::checksum::{Checksum, ChecksumAlgorithm};
use crate::dircopy::damage_map::{DamageMap, EmptyFile};
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::hash_file::{ReadOptions, hash_file};
use crate::dircopy::manifest::inventory::Inventory;
use crate::dircopy::manifest::mhl::directories::{DirectoryDigest, Entries};
use crate::dircopy::manifest::mhl::format::FORMATS;
use crate::dircopy::manifest::mhl::knowledge::Knowledge;
use crate::dircopy::manifest::mhl::nested::NestedHistories;
use crate::dircopy::manifest::mhl::xml::can_have;
use crate::dircopy::manifest::open_beneath;
use crate::dircopy::manifest::read::merge::Records;
use crate::dircopy::manifest::record::{Announced, Record};
use crate::dircopy::stat::size;
use crate::dircopy::write::temporary_file::temporary_file;

/// The error of a file that is read for a generation.
const DIFFERS: &str = "it differs from the digest that it was recorded with";

/// The error of a file that the history of a directory above it does not list.
const NOT_IN_NESTED: &str =
    "the nearest history above it does not list it, so that other programs call it new";

/// A tree, and what is known of its files.
pub(super) struct Tree<'a> {
    pub(super) root: BorrowedFd<'a>,
    pub(super) algorithms: AlgorithmSet,
    /// The files of the run.
    pub(super) found: Records,
    /// The records of the history.
    pub(super) recorded: &'a mut Records,
    /// The histories below the root, and their records.
    pub(super) nested: &'a NestedHistories,
    pub(super) nested_records: Records,
    /// Whether the source has another history, which is only compared with.
    pub(super) is_compared: bool,
    /// How files are read that lack digests.
    pub(super) reading: ReadOptions<'a>,
}

/// The elements of the files and directories of a tree.
#[derive(Debug)]
pub(super) struct TreeElements {
    pub(super) xml: File,
    pub(super) is_empty: bool,
    /// The digests of the root. `None` if a file could not be read.
    pub(super) root: Option<Vec<(ChecksumAlgorithm, DirectoryDigest)>>,
}

/// The path of a file that cannot be read, and its error.
pub(crate) type FileError = (Vec<u8>, anyhow::Error);

impl Tree<'_> {
    /// Makes the elements. Returns the files that cannot be read, too. After a signal nothing more
    /// is read.
    ///
    /// # Errors
    ///
    /// A temporary file cannot be written.
    pub(super) fn list(self, inventory: &Inventory) -> io::Result<(TreeElements, Vec<FileError>)> {
        let mut listing = Listing {
            tree: self,
            levels: Vec::new(),
            xml: BufWriter::new(temporary_file()?),
            is_empty: true,
            date: date(Timestamp::now()),
            failures: Vec::new(),
        };
        listing.enter(Vec::new());
        let mut paths = inventory.paths()?;
        while let Some(Record { path, .. }) = paths.next()? {
            listing.leave_until(&path)?;
            match path.strip_suffix(b"/") {
                Some(directory) => listing.enter(directory.to_vec()),
                None => listing.add_file(path)?,
            }
        }
        while listing.levels.len() > 1 {
            listing.leave()?;
        }
        let root = listing.levels.pop().and_then(Level::finish);
        let mut xml = listing.xml.into_inner().map_err(io::Error::from)?;
        xml.rewind()?;
        let is_empty = listing.is_empty;
        let elements = TreeElements {
            xml,
            is_empty,
            root,
        };
        Ok((elements, listing.failures))
    }
}

/// A tree that is being listed.
struct Listing<'a> {
    tree: Tree<'a>,
    /// The directories from the root to the current one.
    levels: Vec<Level>,
    xml: BufWriter<File>,
    is_empty: bool,
    date: String,
    failures: Vec<FileError>,
}

/// The digests of the bytes of a file.
#[derive(Clone, Copy)]
struct Contents {
    file: FileDigest,
    /// The digest that the record is compared with, if `file` has no function of the record.
    evidence: Option<FileDigest>,
}

impl Contents {
    /// Compares the checksums of the functions that both have. `None` if there are none.
    fn agreement(self, recorded: FileDigest) -> Option<bool> {
        self.evidence.unwrap_or(self.file).agreement(recorded)
    }

    fn checksum(self, algorithm: ChecksumAlgorithm) -> Option<Checksum> {
        let own = self.file.checksum(algorithm);
        own.or_else(|| self.evidence?.checksum(algorithm))
    }
}

/// A directory.
struct Level {
    path: Vec<u8>,
    entries: Vec<Entries>,
    /// Whether the digests of all files are known.
    is_known: bool,
}

impl Level {
    fn finish(self) -> Option<Vec<(ChecksumAlgorithm, DirectoryDigest)>> {
        let digests = self.entries.into_iter();
        let digests = digests.map(|entries| (entries.algorithm(), entries.finish()));
        self.is_known.then(|| digests.collect())
    }
}

impl Listing<'_> {
    fn enter(&mut self, path: Vec<u8>) {
        let in_order = FORMATS.into_iter().map(|(_, algorithm)| algorithm);
        let algorithms = in_order.filter(|algorithm| self.tree.algorithms.contains(*algorithm));
        self.levels.push(Level {
            path,
            entries: algorithms.map(Entries::new).collect(),
            is_known: true,
        });
    }

    /// Leaves the directories that this path is not in.
    fn leave_until(&mut self, path: &[u8]) -> io::Result<()> {
        while self.levels.len() > 1
            && let Some(level) = self.levels.last()
        {
            let below = path.strip_prefix(&*level.path);
            if below.is_some_and(|below| below.starts_with(b"/")) {
                break;
            }
            self.leave()?;
        }
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        let Some(level) = self.levels.pop() else {
            return Ok(());
        };
        let path = level.path.clone();
        let digests = level.finish();
        let Some(above) = self.levels.last_mut() else {
            return Ok(());
        };
        let Some(digests) = digests else {
            above.is_known = false;
            return Ok(());
        };
        for (entries, (_, digest)) in above.entries.iter_mut().zip(&digests) {
            entries.add_directory(base_name(&path), *digest);
        }
        if self.tree.nested.contain(&path) {
            return Ok(());
        }
        let stat = self.stat(&path)?;
        let mut xml = b"    <directoryhash>\n".to_vec();
        write_path(&path, &stat, None, &mut xml);
        write_digests(&digests, &self.date, &mut xml);
        xml.extend_from_slice(b"    </directoryhash>\n");
        self.put(&xml)
    }

    fn stat(&self, path: &[u8]) -> io::Result<Stat> {
        let stat = open_beneath::stat(self.tree.root, path);
        stat.map_err(|error| message::naming(OsStr::from_bytes(path), &error))
    }

    fn put(&mut self, element: &[u8]) -> io::Result<()> {
        self.is_empty = false;
        self.xml.write_all(element)
    }

    /// Why a file of the tree has no element, if it has none.
    fn refusal(&self, path: &[u8]) -> Option<anyhow::Error> {
        if !str::from_utf8(path).is_ok_and(can_have) {
            return Some(anyhow!("XML cannot have its name"));
        }
        let (directory, name) = open_beneath::parent(self.tree.root, path).ok()?;
        let map = DamageMap::of_file(directory.as_fd(), &name, EmptyFile::Other);
        let is_damaged = map.ok().flatten().is_some_and(|map| !map.is_empty());
        is_damaged.then(|| anyhow!("it is damaged, and not listed"))
    }

    fn add_file(&mut self, path: Vec<u8>) -> io::Result<()> {
        if self.tree.reading.is_interrupted() {
            return Ok(());
        }
        let is_nested = self.tree.nested.contain(&path);
        let nested_record = if is_nested {
            self.tree.nested_records.find(&path)?
        } else {
            None
        };
        let is_listed_there = nested_record.is_some();
        let recorded = match nested_record {
            Some(record) => Some(record),
            None => self.tree.recorded.find(&path)?,
        };
        let recorded = recorded.and_then(|record| record.file);
        let found = self.tree.found.find(&path)?;
        let (file, knowledge) = match found {
            Some(Record {
                announced: Some(Announced::Adds(file)),
                ..
            }) => (Some(file), Knowledge::Carried),
            Some(Record {
                announced: Some(Announced::Replaces(file)),
                ..
            }) => (Some(file), Knowledge::Differs),
            Some(Record { file, .. }) => (file, Knowledge::Read),
            None => (None, Knowledge::Read),
        };
        // The history of the source, if it is another one, may be all that knows the file.
        let is_hearsay =
            self.tree.is_compared && knowledge == Knowledge::Carried && recorded.is_none();
        let is_complete = file.is_some_and(|file| {
            let own = AlgorithmSet::from(file.algorithm);
            let is_comparable = recorded.is_none_or(|recorded| file.agreement(recorded).is_some());
            own.includes(self.tree.algorithms) && is_comparable && !is_hearsay
        });
        let known = recorded.or(file);
        let is_reported = knowledge == Knowledge::Differs;
        let mut evidence = None;
        let (file, knowledge) = match file.filter(|_| is_complete) {
            Some(file) => (file, knowledge),
            None => match self.read_or_refuse(&path, known) {
                Ok(read) => {
                    evidence = read.evidence;
                    let differs = known.is_some_and(|known| read.agreement(known) != Some(true));
                    let mut knowledge = Knowledge::Read;
                    if differs {
                        if !is_reported {
                            let error = anyhow!(DIFFERS);
                            self.failures.push((path.clone(), error));
                        }
                        knowledge = Knowledge::Differs;
                    }
                    (read.file, knowledge)
                }
                // The run writes no generation.
                Err(_) if self.tree.reading.is_interrupted() => return Ok(()),
                Err(error) => {
                    self.failures.push((path, error));
                    if let Some(level) = self.levels.last_mut() {
                        level.is_known = false;
                    }
                    return Ok(());
                }
            },
        };
        if let Some(level) = self.levels.last_mut() {
            for entries in &mut level.entries {
                if let Some(checksum) = file.checksum(entries.algorithm()) {
                    entries.add_file(base_name(&path), checksum);
                }
            }
        }
        if is_listed_there {
            return Ok(());
        }
        if is_nested {
            self.failures.push((path.clone(), anyhow!(NOT_IN_NESTED)));
        }
        match (knowledge, recorded) {
            // The history has the file already.
            (Knowledge::Carried, Some(_)) => Ok(()),
            // Only the journal of a killed run has its digest. In a generation the file would be an
            // original as it is now.
            (Knowledge::Differs, None) => Err(io::Error::other(format!(
                "{} differs from what an unfinished run copied: repair it by --overwrite-policy=update, \
                 or remove it",
                quoted(OsStr::from_bytes(&path))
            ))),
            // A killed run recorded the file in its journal alone.
            (Knowledge::Carried, None) | (Knowledge::Read, _) | (Knowledge::Differs, Some(_)) => {
                self.put_file(&path, Contents { file, evidence }, recorded)
            }
        }
    }

    fn read_or_refuse(
        &self,
        path: &[u8],
        recorded: Option<FileDigest>,
    ) -> anyhow::Result<Contents> {
        match self.refusal(path).filter(|_| recorded.is_none()) {
            Some(error) => Err(error),
            None => self.read(path, recorded),
        }
    }

    /// Reads a file that lacks digests. One of the functions that it is recorded with is among
    /// them. The file is read a second time if a digest has no room for it.
    fn read(&self, path: &[u8], recorded: Option<FileDigest>) -> anyhow::Result<Contents> {
        let hash = |algorithm| {
            hash_file(self.tree.root, path, algorithm, self.tree.reading)
                .map_err(|error| anyhow!(error).context("cannot read its copy"))
        };
        let set = recorded.map_or(self.tree.algorithms, |file| {
            file.algorithms_with(self.tree.algorithms)
        });
        let file = hash(set.into())?;
        let unlike = recorded.filter(|recorded| file.agreement(*recorded).is_none());
        let evidence = unlike
            .map(|recorded| hash(recorded.algorithm))
            .transpose()?;
        Ok(Contents { file, evidence })
    }

    fn put_file(
        &mut self,
        path: &[u8],
        contents: Contents,
        recorded: Option<FileDigest>,
    ) -> io::Result<()> {
        let stat = self.stat(path)?;
        let mut xml = b"    <hash>\n".to_vec();
        write_path(path, &stat, Some(size(&stat)), &mut xml);
        let has_failed =
            recorded.is_some_and(|recorded| contents.agreement(recorded) != Some(true));
        for (name, algorithm) in FORMATS {
            let Some(checksum) = contents.checksum(algorithm) else {
                continue;
            };
            let known = recorded.map(|recorded| recorded.checksum(algorithm));
            let action = match known {
                None => "original",
                Some(Some(known)) if known != checksum => "failed",
                // Nothing vouches for a new digest of a file that has failed.
                Some(None) if has_failed => continue,
                Some(_) => "verified",
            };
            write_checksum(
                name,
                algorithm,
                &checksum,
                Some(action),
                &self.date,
                &mut xml,
            );
        }
        xml.extend_from_slice(b"    </hash>\n");
        self.put(&xml)
    }
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}
