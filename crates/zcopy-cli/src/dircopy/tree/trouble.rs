//! What went wrong on the walk, and where.

use std::io;
use std::path::{Path, PathBuf};

use super::OtherName;
use crate::dircopy::attributes;
use crate::quote::quoted;

/// Something of the tree that could not be copied, or not whole. It reads `PATH: WHAT: CAUSE`, of which this is the
/// first and the others are its sources.
#[derive(Debug, thiserror::Error)]
#[error("{}", quoted(if path.as_os_str().is_empty() { ".".as_ref() } else { path.as_os_str() }))]
pub struct Trouble {
    path: PathBuf,
    #[source]
    cause: Cause,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// It cannot be told what an entry of the source is. It may have gone.
    #[error("cannot stat")]
    Look(#[source] io::Error),
    /// A directory of the source, which is left out.
    #[error("cannot open directory")]
    Open(#[source] io::Error),
    /// A directory of the source, of which a part is left out.
    #[error("cannot read directory")]
    Read(#[source] io::Error),
    /// A directory in the destination, whose entries are left out.
    #[error("cannot use destination directory")]
    Destination(#[source] io::Error),
    /// A symbolic link of the source to a directory that it is in. It is left out.
    #[error("file system loop detected")]
    Loop,
    /// A directory of the destination that is being filled, met in the source. It is left out.
    #[error("cannot copy the destination into itself")]
    Contained,
    /// A directory of the destination that is one of those that are copied. What would go there is left out.
    #[error("cannot copy into the source")]
    IntoSource,
    /// A directory in the destination that had to be opened up to be filled, and stays so.
    #[error("cannot give the destination directory back the mode that it had")]
    Mode(#[source] io::Error),
    /// A directory of the source, whose name the destination does not tell from another one. It is left out.
    #[error("not copied")]
    OtherName(#[source] OtherName),
    /// An attribute of a directory.
    #[error(transparent)]
    Attributes(attributes::Error),
}

impl Trouble {
    pub(super) fn new(path: impl Into<PathBuf>, cause: Cause) -> Self {
        let path = path.into();
        Self { path, cause }
    }

    /// Where it is, from the root.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What went wrong.
    #[must_use]
    pub fn cause(&self) -> &Cause {
        &self.cause
    }
}
