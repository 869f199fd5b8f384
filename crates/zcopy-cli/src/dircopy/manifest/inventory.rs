//! The regular files of a tree, in the order of their paths.

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
use crate::dircopy::stat::size;
use crate::dircopy::walk::scan::{Failure, Found, Next, ScanOptions, scan};

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
