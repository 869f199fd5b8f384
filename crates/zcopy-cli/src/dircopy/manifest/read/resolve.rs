//! Which digest a file should have that a killed run may have changed.

use std::io;
use std::os::fd::BorrowedFd;

use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::hash_file::{ReadOptions, hash_file};
use crate::dircopy::manifest::open_beneath::{self, Found};
use crate::dircopy::manifest::record::{Announced, Record};
use crate::dircopy::walk::spelling::paths::PathSpellings;

impl Record {
    /// The digest that the file should have. If a killed run was about to change the file, this
    /// reads the file to learn whether the run did. `root` is the root of the tree.
    ///
    /// Returns `None` if the run had not added the file yet.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(crate) fn resolve(
        &self,
        root: BorrowedFd<'_>,
        options: ReadOptions<'_>,
    ) -> io::Result<Option<FileDigest>> {
        let Some(announced) = self.announced else {
            return Ok(self.file);
        };
        match (open_beneath::find(root, &self.path)?, announced) {
            (Found::RegularFile, _) => {}
            (Found::Other, Announced::Clears) => return Ok(None),
            (Found::Other | Found::BehindLink | Found::Nothing, _) => return Ok(self.file),
        }
        let has = |file: FileDigest| {
            let found = hash_file(root, &self.path, file.algorithm, options)?;
            io::Result::Ok(found.agrees_with(file))
        };
        match (announced, self.file) {
            (Announced::Replaces(new), Some(old)) if !has(new)? && has(old)? => Ok(Some(old)),
            // The name of an added file was free, so the file with that name now is the new one. A
            // replaced file with neither digest is damaged: it should have the new one.
            (Announced::Adds(new), _) | (Announced::Replaces(new), Some(_)) => Ok(Some(new)),
            (Announced::Replaces(new), None) => Ok(has(new)?.then_some(new)),
            (Announced::Clears, Some(old)) => Ok(has(old)?.then_some(old)),
            (Announced::Clears, None) => Ok(None),
        }
    }
}

/// Whether a recorded file is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// A check can open it.
    Present,
    /// Its path leads to nothing.
    Gone,
    /// Its path leads to what is no regular file, or through a symbolic link out of the tree.
    Obstructed,
}

/// Whether the file with this path is there. Where case is ignored, a file that was renamed only in
/// case is found by its old name, and still counts as gone. Callers pass paths in ascending order.
///
/// # Errors
///
/// The path cannot be looked up.
pub(crate) fn presence(
    root: BorrowedFd<'_>,
    spellings: &mut PathSpellings,
    path: &[u8],
) -> io::Result<Presence> {
    Ok(match open_beneath::find(root, path)? {
        Found::Nothing => Presence::Gone,
        Found::RegularFile if spellings.is_spelled_otherwise(root, path) => Presence::Gone,
        Found::RegularFile => Presence::Present,
        // A check follows links that stay in the tree.
        Found::Other | Found::BehindLink => match open_beneath::open(root, path) {
            Ok(_) => Presence::Present,
            Err(_) => Presence::Obstructed,
        },
    })
}
