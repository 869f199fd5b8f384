//! Files of a tree that no manifest lists.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use walkdir::WalkDir;

use super::archive::Archive;
use super::journal::is_journal;
use super::journal_entry::JournalEntry;
use super::merge::{Records, Sorted};
use super::spool::{Piece, PieceReader, Spool};
use crate::dircopy::place::hidden;

/// Finds regular files below the root of a tree that have no record, in the order of their paths.
/// Manifests, journals and files under construction are none of them.
///
/// The paths of all files are sorted on disk, so that a million files take no memory.
#[derive(Debug)]
pub(super) struct Unlisted {
    found: Records,
    records: Records,
}

impl Unlisted {
    /// Walks the tree.
    ///
    /// # Errors
    ///
    /// A directory or a manifest cannot be read; a temporary file cannot be written.
    pub(super) fn find(root: &Path, archive: &Archive) -> io::Result<Self> {
        let mut spool = Spool::new()?;
        let mut walk = WalkDir::new(root).min_depth(1).into_iter();
        let pieces = spool.sort(|| {
            for entry in walk.by_ref() {
                let entry = entry?;
                let name = entry.file_name().as_bytes();
                let is_in_root = entry.depth() == 1;
                let is_own = is_in_root && (archive.owns(name) || is_journal(name));
                if entry.file_type().is_file() && !is_own && !hidden::is_hidden(name) {
                    let path = entry.path().strip_prefix(root).unwrap_or(entry.path());
                    let path = path.as_os_str().as_bytes().to_vec();
                    return Ok(Some((path, JournalEntry::FOUND)));
                }
            }
            Ok(None)
        })?;
        let spool = spool.finish()?;
        Ok(Self {
            found: merge(pieces, &spool)?,
            records: archive.records()?,
        })
    }

    /// The next path.
    ///
    /// # Errors
    ///
    /// A manifest or the temporary file cannot be read.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        while let Some(found) = self.found.next()? {
            if self.records.find(&found.path)?.is_none() {
                return Ok(Some(found.path));
            }
        }
        Ok(None)
    }
}

fn merge(pieces: Vec<Piece>, spool: &Arc<File>) -> io::Result<Records> {
    let pieces = pieces.into_iter();
    let pieces = pieces.map(|piece| Sorted::Piece(PieceReader::new(spool, piece)));
    Records::merge(pieces.collect())
}
