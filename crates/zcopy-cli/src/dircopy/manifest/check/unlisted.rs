//! Files of a tree that no manifest lists.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::fs::FileType;

use crate::dircopy::damage_map::{EmptyFile, MapText, mapped_name};
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::hash_file::ReadOptions;
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::journal::is_journal;
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::manifest::open_beneath;
use crate::dircopy::manifest::read::archive::Archive;
use crate::dircopy::manifest::read::merge::{Records, Sorted};
use crate::dircopy::manifest::read::spool::{Piece, PieceReader, Sorter, Spool};
use crate::dircopy::manifest::record::Announced;
use crate::dircopy::walk::scan::{Failure, Found, Next, ScanOptions, scan};
use crate::dircopy::walk::spelling::key;
use crate::dircopy::walk::spelling::listed_paths::ListedPaths;
use crate::dircopy::write::atomic_file::temp_name;

/// Which files to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Find {
    /// Only damaged files.
    Damaged,
    /// All files that have no record.
    All,
}

/// A file that has no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnlistedFile {
    pub(crate) path: Vec<u8>,
    /// Whether a map beside it says that bytes of it are missing.
    pub(crate) is_damaged: bool,
}

/// Finds regular files below the root of a tree that have no record, in the order of their paths.
/// Manifests, journals, files under construction, and maps of damaged files are left out.
///
/// A damaged file that has a record is left out too: its digest shows whether it is whole. So is a
/// file whose record has another spelling of its path, if the file system does not tell the two
/// apart.
///
/// The paths of all files are sorted on disk, so that a million files take no memory. Each file
/// without a record takes 8 bytes, and so does each that is left out.
#[derive(Debug)]
pub(crate) struct Unlisted {
    found: Records,
    records: Records,
    /// The hashes of the paths of files that are recorded by another spelling, sorted.
    respelled: Vec<u64>,
    /// The hashes of the paths that were left out.
    left_out: HashSet<u64>,
    /// The directories that could not be read, each with its error.
    unsearched: Vec<Failure>,
}

/// A map of the file was found. If the file is found too, both entries merge into one record, in
/// either order.
const DAMAGED: JournalEntry = JournalEntry::Has(FileDigest::NONE);

/// The file was found.
const FOUND: JournalEntry = JournalEntry::Announced(Announced::Adds(FileDigest::NONE));

impl Unlisted {
    /// Walks the tree, and holds up to `most_open` levels open. Manifests of the kinds `others` are
    /// left out, too.
    ///
    /// # Errors
    ///
    /// A manifest cannot be read; a temporary file cannot be written. A directory that cannot be
    /// read is [skipped](Self::take_unsearched).
    pub(crate) fn find(
        root: BorrowedFd<'_>,
        archive: &Archive,
        others: &[ManifestKind],
        find: Find,
        most_open: usize,
    ) -> io::Result<Self> {
        let options = ScanOptions {
            follows_symlinks: false,
            one_file_system: false,
            most_open,
        };
        let mut sorter = Sorter::new(Spool::new()?);
        let add = |found: &Found<'_>, sorter: &mut Sorter<_>| {
            let name = found.name.to_bytes();
            let is_own = found.node.is_root() && (archive.owns(name) || is_journal(name));
            if found.kind != FileType::RegularFile || is_own || temp_name::is_temp_name(name) {
                return Ok(());
            }
            let mapped = mapped_name(name);
            if find == Find::Damaged && mapped.is_none() {
                return Ok(());
            }
            let path = found.path();
            if !archive.covers(&path) || others.iter().any(|other| other.may_own(&path)) {
                return Ok(());
            }
            if mapped.is_some()
                && let Some(mapped) = mapped_name(&path)
                && is_map(root, &path, mapped)?
            {
                return sorter.add(mapped.to_vec(), DAMAGED);
            }
            match find {
                Find::Damaged => Ok(()),
                Find::All => sorter.add(path, FOUND),
            }
        };
        let (mut outcome, mut unsearched) = (Ok(()), Vec::new());
        scan(root, options, |found| {
            outcome = match found {
                Ok(found) => add(&found, &mut sorter),
                Err(failure) if find == Find::Damaged && is_forbidden_or_gone(&failure.error) => {
                    Ok(())
                }
                Err(failure) => {
                    unsearched.push(failure);
                    Ok(())
                }
            };
            match outcome {
                Ok(()) => Next::Enter,
                Err(_) => Next::Stop,
            }
        });
        outcome?;
        let (spool, pieces) = sorter.finish()?;
        let spool = spool.finish()?;
        let unrecorded = unrecorded_keys(merge(pieces.clone(), &spool)?, archive)?;
        Ok(Self {
            found: merge(pieces, &spool)?,
            records: archive.records()?,
            respelled: respelled(root, archive, &unrecorded)?,
            left_out: HashSet::new(),
            unsearched,
        })
    }

    /// The directories that could not be read, each with its error. Files in them are not found.
    pub(crate) fn take_unsearched(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.unsearched)
    }

    /// Leaves out a file that has been reported.
    pub(crate) fn leave_out(&mut self, path: &[u8]) {
        self.left_out.insert(key::hash_of(path));
    }

    /// The next file. A record without a digest does not count: a killed run was about to add the
    /// file. `null` is `/dev/null`.
    ///
    /// # Errors
    ///
    /// A manifest or the temporary file cannot be read.
    pub(crate) fn next(
        &mut self,
        root: BorrowedFd<'_>,
        null: &File,
    ) -> io::Result<Option<UnlistedFile>> {
        while let Some(found) = self.found.next()? {
            let record = self.records.find(&found.path)?;
            let hash = key::hash_of(&found.path);
            if self.left_out.contains(&hash) {
                continue;
            }
            let has_record = match record {
                None => false,
                // The list reports a file that cannot be read.
                Some(record) => record
                    .resolve(root, ReadOptions::unlimited(null))
                    .map_or(true, |file| file.is_some()),
            };
            let is_respelled = || self.respelled.binary_search(&hash).is_ok();
            if !has_record && !is_respelled() {
                return Ok(Some(UnlistedFile {
                    path: found.path,
                    is_damaged: found.file.is_some(),
                }));
            }
        }
        Ok(None)
    }
}

/// The keys of the folded paths that were found and have no record, sorted.
fn unrecorded_keys(mut found: Records, archive: &Archive) -> io::Result<Vec<u64>> {
    let mut records = archive.records()?;
    let mut keys = Vec::new();
    while let Some(found) = found.next()? {
        if records.find(&found.path)?.is_none() {
            keys.push(key::hash(&found.path));
        }
    }
    keys.sort_unstable();
    Ok(keys)
}

/// The hashes of the paths by which directories list files that are recorded by another spelling,
/// sorted. Only records with these keys are looked up.
fn respelled(root: BorrowedFd<'_>, archive: &Archive, unrecorded: &[u64]) -> io::Result<Vec<u64>> {
    let mut hashes = Vec::new();
    if unrecorded.is_empty() {
        return Ok(hashes);
    }
    let (mut records, mut listed) = (archive.records()?, ListedPaths::default());
    while let Some(record) = records.next()? {
        if record.may_have_file()
            && unrecorded.binary_search(&key::hash(&record.path)).is_ok()
            && let Some(path) = listed.find(root, &record.path)
        {
            hashes.push(key::hash_of(&path));
        }
    }
    hashes.sort_unstable();
    Ok(hashes)
}

/// Whether a file is a map with bad ranges. `mapped` is the path of the file that the map belongs
/// to.
fn is_map(root: BorrowedFd<'_>, path: &[u8], mapped: &[u8]) -> io::Result<bool> {
    let text = match open_beneath::open(root, path).and_then(MapText::from_file) {
        Ok(MapText::Other) => return Ok(false),
        Ok(text) => text,
        // A file that cannot be read is not known to be a map.
        Err(error) if is_forbidden_or_gone(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    let mapped = open_beneath::open(root, mapped).and_then(|file| file.metadata());
    let size = mapped.ok().map(|mapped| mapped.len());
    // An empty file is a map only beside the file that it would belong to.
    let empty = match size {
        Some(_) => EmptyFile::CutMap,
        None => EmptyFile::Other,
    };
    let map = text.of_mapped(size, empty);
    Ok(map.is_some_and(|map| !map.is_empty()))
}

fn is_forbidden_or_gone(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(
        kind,
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound
    )
}

fn merge(pieces: Vec<Piece>, spool: &Arc<File>) -> io::Result<Records> {
    let pieces = pieces.into_iter();
    let pieces = pieces.map(|piece| Sorted::Piece(PieceReader::new(spool, piece)));
    Records::merge(pieces.collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::dircopy::manifest::read::archive::Verify;
    use crate::dircopy::test_support::{open, scratch};

    #[test]
    fn a_file_that_was_left_out_is_not_found() {
        let scratch = scratch();
        for name in ["a", "b", "c"] {
            fs::write(scratch.path().join(name), "").unwrap();
        }
        let root = open(scratch.path());
        let archive = Archive::open(root.as_fd(), Verify::All, false).unwrap();
        let null = File::options().write(true).open("/dev/null").unwrap();
        let mut unlisted = Unlisted::find(root.as_fd(), &archive, &[], Find::All, 8).unwrap();
        unlisted.leave_out(b"b");
        let next = || unlisted.next(root.as_fd(), &null).unwrap();
        let found: Vec<_> = std::iter::from_fn(next).map(|file| file.path).collect();
        assert_eq!(found, [b"a", b"c"]);
    }
}
