//! What a record says of a file that a killed run may have changed.

use std::fs::File;
use std::os::fd::BorrowedFd;

use super::hash_file::hash_file;
use super::open_beneath;
use super::record::{Announced, FileDigest, Record};

impl Record {
    /// The digest that the file has to have. If a killed run was about to change the file, this
    /// looks whether it did. `root` is the root of the tree and `null` is `/dev/null`.
    ///
    /// Returns `None` if the run did not come to add the file, so that nothing is recorded of it.
    pub(crate) fn resolve(&self, root: BorrowedFd<'_>, null: &File) -> Option<FileDigest> {
        match self.announced {
            None => self.file,
            // Nothing had the name, so that whatever has it now is the new file.
            Some(Announced::Adds(new)) => {
                if is_missing(root, &self.path) {
                    self.file
                } else {
                    Some(new)
                }
            }
            Some(Announced::Replaces(new)) => {
                match hash_file(root, &self.path, new.algorithm, null) {
                    Ok(found) if found == new => Some(new),
                    _ => self.file,
                }
            }
        }
    }
}

/// Whether there is no regular file with this path.
pub(super) fn is_missing(root: BorrowedFd<'_>, path: &[u8]) -> bool {
    matches!(open_beneath::is_regular_file(root, path), Ok(false))
}
