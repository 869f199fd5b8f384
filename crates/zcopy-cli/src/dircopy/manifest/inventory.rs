//! The regular files of a tree, in the order of their paths.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType};

use crate::common::cli::message;
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::read::merge::{Records, Sorted};
use crate::dircopy::manifest::read::spool::{Piece, PieceReader, Sorter, Spool};
use crate::dircopy::manifest::record::Record;
use crate::dircopy::stat::size;
use crate::dircopy::walk::scan::{Failure, Found, Next, ScanOptions, scan};
use crate::dircopy::walk::spelling::keeps_case;
use crate::dircopy::walk::spelling::listed_paths::ListedPaths;

/// The types of the entries in an inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kinds {
    Files,
    /// The paths of directories end in a slash.
    FilesAndDirectories,
}

/// The regular files of a tree. Their paths are sorted on disk.
#[derive(Debug)]
pub(crate) struct Inventory {
    pieces: Vec<Piece>,
    spool: Arc<File>,
    pub(crate) n_files: u64,
    pub(crate) n_bytes: u64,
}

impl Inventory {
    /// Walks a tree, and holds up to `most_open` levels open. `is_listed` gets each path, and
    /// whether it is that of a directory; others are left out, with everything below them.
    ///
    /// # Errors
    ///
    /// A directory cannot be read; a temporary file cannot be written.
    pub(crate) fn of(
        root: BorrowedFd<'_>,
        most_open: usize,
        kinds: Kinds,
        is_listed: impl Fn(&[u8], bool) -> bool,
    ) -> io::Result<Self> {
        let options = ScanOptions {
            follows_symlinks: false,
            one_file_system: false,
            most_open,
        };
        let mut sorter = Sorter::new(Spool::new()?);
        let (mut n_files, mut n_bytes) = (0, 0);
        let mut add = |found: &Found<'_>| {
            let is_directory = found.kind == FileType::Directory;
            let mut path = found.path();
            if !is_listed(&path, is_directory) {
                return Ok(Next::Pass);
            }
            if is_directory && kinds == Kinds::FilesAndDirectories {
                path.push(b'/');
                sorter.add(path, JournalEntry::Has(FileDigest::NONE))?;
                return Ok(Next::Enter);
            }
            if found.kind != FileType::RegularFile {
                return Ok(Next::Enter);
            }
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let stat = rustix::fs::statat(found.directory, found.name, flags)
                .map_err(|errno| message::naming(OsStr::from_bytes(&path), &errno.into()))?;
            n_files += 1;
            n_bytes += size(&stat);
            sorter.add(path, JournalEntry::Has(FileDigest::NONE))?;
            io::Result::Ok(Next::Enter)
        };
        let mut outcome: io::Result<()> = Ok(());
        scan(root, options, |found| {
            let added = match found {
                Ok(found) => add(&found),
                Err(Failure { path, error }) => {
                    Err(message::naming(OsStr::from_bytes(&path), &error))
                }
            };
            added.unwrap_or_else(|error| {
                outcome = Err(error);
                Next::Stop
            })
        });
        outcome?;
        let (spool, pieces) = sorter.finish()?;
        Ok(Self {
            pieces,
            spool: spool.finish()?,
            n_files,
            n_bytes,
        })
    }

    /// The same files, each by the path that it is recorded by, if the file system lists names in
    /// one case: then a listing does not tell how a name was made. `next` returns the recorded paths
    /// in ascending order. A file is created in `directory` to find out how names are listed, if a
    /// path is listed by another spelling.
    ///
    /// Each file that is listed by another spelling takes the length of both paths in memory.
    ///
    /// # Errors
    ///
    /// The error of `next`; a temporary file cannot be read or written.
    pub(crate) fn respelled(
        self,
        root: BorrowedFd<'_>,
        directory: BorrowedFd<'_>,
        mut next: impl FnMut() -> io::Result<Option<Vec<u8>>>,
    ) -> io::Result<Self> {
        let (mut found, mut listed) = (self.paths()?, ListedPaths::default());
        let mut spellings = HashMap::new();
        while let Some(recorded) = next()? {
            if found.find(&recorded)?.is_some() {
                continue;
            }
            let listed = listed.find(root, &recorded);
            let Some(listed) = listed.filter(|listed| *listed != recorded) else {
                continue;
            };
            if spellings.is_empty() && keeps_case(directory) {
                // The file has been renamed.
                return Ok(self);
            }
            add_spellings(&mut spellings, &listed, &recorded);
        }
        if spellings.is_empty() {
            return Ok(self);
        }
        let (mut found, mut sorter) = (self.paths()?, Sorter::new(Spool::new()?));
        while let Some(Record { path, .. }) = found.next()? {
            let path = respelled(&spellings, path);
            sorter.add(path, JournalEntry::Has(FileDigest::NONE))?;
        }
        let (spool, pieces) = sorter.finish()?;
        Ok(Self {
            pieces,
            spool: spool.finish()?,
            ..self
        })
    }

    /// The paths, each as a record.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be read.
    pub(crate) fn paths(&self) -> io::Result<Records> {
        let pieces = self.pieces.iter().cloned();
        let pieces = pieces.map(|piece| Sorted::Piece(PieceReader::new(&self.spool, piece)));
        Records::merge(pieces.collect())
    }
}

/// Adds the recorded spellings of a path, and of the directories on the way to it.
fn add_spellings(
    spellings: &mut HashMap<Vec<u8>, Vec<u8>>,
    mut listed: &[u8],
    mut recorded: &[u8],
) {
    while listed != recorded {
        let is_known = spellings.insert(listed.to_vec(), recorded.to_vec());
        let is_first = is_known.is_none();
        let above = |path: &[u8]| memchr::memrchr(b'/', path);
        let (Some(above_listed), Some(above_recorded)) = (above(listed), above(recorded)) else {
            return;
        };
        if !is_first {
            return;
        }
        (listed, recorded) = (&listed[..above_listed], &recorded[..above_recorded]);
    }
}

/// A path as it is recorded, or its directory if that is recorded by another spelling.
fn respelled(spellings: &HashMap<Vec<u8>, Vec<u8>>, path: Vec<u8>) -> Vec<u8> {
    let ends = memchr::memrchr_iter(b'/', &path);
    for end in [path.len()].into_iter().chain(ends) {
        if let Some(spelling) = spellings.get(&path[..end]) {
            return [spelling, &path[end..]].concat();
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_get_the_spellings_that_they_are_recorded_by() {
        let mut spellings = HashMap::new();
        add_spellings(&mut spellings, b"dir/sub/one", b"Dir/sub/One");
        add_spellings(&mut spellings, b"dir/two", b"Dir/two");
        for (listed, recorded) in [
            ("dir/sub/one", "Dir/sub/One"),
            ("dir/two", "Dir/two"),
            ("dir/three", "Dir/three"),
            ("dir/sub/", "Dir/sub/"),
            ("dir/", "Dir/"),
            ("directory/one", "directory/one"),
            ("one", "one"),
        ] {
            let found = respelled(&spellings, listed.as_bytes().to_vec());
            assert_eq!(found, recorded.as_bytes(), "{listed}");
        }
    }
}
