//! Names that the destination may not tell apart, as the walk asks for them.

use std::ffi::{CStr, OsStr};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::{Directory, OpenDirs};
use crate::common::cli::quote::quoted;

/// The path of another name that stands for the same file in the destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the destination does not tell its name from {}", quoted(OsStr::from_bytes(.0)))]
pub(crate) struct OtherName(Vec<u8>);

impl OtherName {
    pub(crate) fn new(path: Vec<u8>) -> Self {
        Self(path)
    }
}

/// Finds names that the destination does not tell apart, and recorded files.
pub(crate) trait CollisionCheck: fmt::Debug + Sync {
    /// Finds out whether an existing directory of the destination belongs to another name.
    ///
    /// # Errors
    ///
    /// A directory or the manifests cannot be read.
    fn of_directory(
        &self,
        parent: &Directory,
        opened: &OpenDirs,
        name: &CStr,
    ) -> io::Result<Option<OtherName>>;

    /// Whether a path has a record. If the records cannot be read, it may have one.
    fn has_record(&self, path: &Path) -> bool;
}
