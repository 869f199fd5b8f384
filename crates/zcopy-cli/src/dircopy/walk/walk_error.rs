//! Errors of the walk.

use std::io;
use std::path::{Path, PathBuf};

use super::OtherName;
use crate::common::cli::quote::quoted;
use crate::dircopy::write::metadata;

/// An error of the walk at a path. The whole message is `PATH: OPERATION: CAUSE`; this error
/// displays `PATH`, and its sources the rest.
#[derive(Debug, thiserror::Error)]
#[error("{}", quoted(if path.as_os_str().is_empty() { ".".as_ref() } else { path.as_os_str() }))]
pub(crate) struct WalkError {
    path: PathBuf,
    #[source]
    cause: Cause,
}

/// The operation that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Cause {
    /// An entry of the source cannot be examined. It may have been removed.
    #[error("cannot stat")]
    Stat(#[source] io::Error),
    /// A directory of the source cannot be opened. It is skipped.
    #[error("cannot open directory")]
    Open(#[source] io::Error),
    /// A directory of the source cannot be read to its end. The remaining entries are skipped.
    #[error("cannot read directory")]
    Read(#[source] io::Error),
    /// A directory of the destination cannot be used. Its entries are skipped.
    #[error("cannot use destination directory")]
    Destination(#[source] io::Error),
    /// A symbolic link of the source leads to a directory that contains it. It is skipped.
    #[error("file system loop detected")]
    Loop,
    /// A directory of the source is one of the destination that is being filled. It is skipped.
    #[error("cannot copy the destination into itself")]
    Contained,
    /// A directory of the destination is one of the source that is being copied. Its entries are
    /// skipped.
    #[error("cannot copy into the source")]
    IntoSource,
    /// A directory of the destination was made accessible to its owner, and its former mode cannot
    /// be restored.
    #[error("cannot give the destination directory back the mode that it had")]
    Mode(#[source] io::Error),
    /// The destination does not tell the name of a directory from another name. It is skipped.
    #[error("not copied")]
    OtherName(#[source] OtherName),
    /// A run that was killed has left an unfinished copy in the source. It is skipped, and this is
    /// no error.
    #[error("not copied: it is an unfinished copy, which a killed run left in the source")]
    Unfinished,
    /// An attribute of a directory cannot be kept.
    #[error(transparent)]
    Attributes(metadata::Error),
}

impl WalkError {
    pub(super) fn new(path: impl Into<PathBuf>, cause: Cause) -> Self {
        let path = path.into();
        Self { path, cause }
    }

    /// The path from the root.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The operation that failed.
    #[must_use]
    pub(crate) fn cause(&self) -> &Cause {
        &self.cause
    }
}
