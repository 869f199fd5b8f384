//! What a record says of a file that a killed run may have changed.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

use super::hash_file::hash_file;
use super::open_beneath::{self, Found};
use super::record::{Announced, FileDigest, Record};
use crate::dircopy::spelling::paths::PathSpellings;

impl Record {
    /// The digest that the file has to have. If a killed run was about to change the file, this
    /// looks whether it did. `root` is the root of the tree and `null` is `/dev/null`.
    ///
    /// Returns `None` if nothing is recorded of the file, as the run did not come to add it.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(crate) fn resolve(
        &self,
        root: BorrowedFd<'_>,
        null: &File,
    ) -> io::Result<Option<FileDigest>> {
        let Some(announced) = self.announced else {
            return Ok(self.file);
        };
        match (open_beneath::find(root, &self.path)?, announced) {
            (Found::RegularFile, _) => {}
            (Found::Other, Announced::Clears) => return Ok(None),
            (Found::Other | Found::Nothing, _) => return Ok(self.file),
        }
        let has = |file: FileDigest| {
            let found = hash_file(root, &self.path, file.algorithm, null)?;
            io::Result::Ok(found == file)
        };
        match (announced, self.file) {
            (Announced::Replaces(new), Some(old)) if !has(new)? && has(old)? => Ok(Some(old)),
            // Nothing had the name of an added file, so that whatever has it now is the new one. A
            // file that was replaced and has neither digest is damaged: its source has the new one.
            (Announced::Adds(new), _) | (Announced::Replaces(new), Some(_)) => Ok(Some(new)),
            (Announced::Replaces(new), None) => Ok(has(new)?.then_some(new)),
            (Announced::Clears, Some(old)) => Ok(has(old)?.then_some(old)),
            (Announced::Clears, None) => Ok(None),
        }
    }
}

/// Whether there is no regular file with this path. A file that has been renamed by its case alone
/// is still found by its old name where case is ignored, and is missing all the same. Paths ascend.
///
/// # Errors
///
/// It cannot be looked for.
pub(super) fn is_missing(
    root: BorrowedFd<'_>,
    spellings: &mut PathSpellings,
    path: &[u8],
) -> io::Result<bool> {
    Ok(match open_beneath::find(root, path)? {
        Found::Other | Found::Nothing => true,
        Found::RegularFile => spellings.is_spelled_otherwise(root, path),
    })
}
