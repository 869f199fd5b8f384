//! The root of a tree that is verified, and what its files are verified against.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::options::Options;
use crate::common::cli::message;
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::manifest::open_beneath;
use crate::dircopy::manifest::read::archive::DamagedFile;
use crate::dircopy::walk::scan::Failure;

/// The error of a tree, a manifest or a list that cannot be read.
pub(super) struct ListError {
    pub(super) path: PathBuf,
    pub(super) error: io::Error,
}

impl ListError {
    /// A damaged manifest in the root of a tree.
    pub(super) fn of_damaged(tree: &Path, damaged: &DamagedFile) -> Self {
        let DamagedFile { name, damage, .. } = damaged;
        let message = format!("the manifest {}: {damage}", damaged.state());
        Self {
            path: tree.join(name),
            error: io::Error::other(message),
        }
    }

    /// A directory of a tree that was not searched for files without a record.
    pub(super) fn of_unsearched(tree: &Path, failure: &Failure) -> Self {
        let Failure { path, error } = failure;
        let message = message::worded(error);
        let message = format!("cannot look for files that are not listed: {message}");
        let path = match &path[..] {
            [] => tree.to_owned(),
            path => tree.join(OsStr::from_bytes(path)),
        };
        Self {
            path,
            error: io::Error::other(message),
        }
    }
}

/// A directory whose files are verified.
pub(super) struct Root<'a> {
    pub(super) path: &'a Path,
    pub(super) directory: OwnedFd,
    /// The kinds of manifests that the files are verified against, one after another. Empty if a
    /// list was named.
    pub(super) kinds: Vec<ManifestKind>,
}

impl<'a> Root<'a> {
    /// Opens a directory, and finds out which kinds of manifests it has.
    pub(super) fn open(path: &'a Path, options: &Options) -> Result<Self, ListError> {
        let in_tree = |error| ListError {
            path: path.to_owned(),
            error,
        };
        let directory = open_beneath::directory(path).map_err(in_tree)?;
        let kinds = match options.hash_file {
            Some(_) => Vec::new(),
            None => options.kinds_in(directory.as_fd()).map_err(in_tree)?,
        };
        Ok(Self {
            path,
            directory,
            kinds,
        })
    }

    /// What the files are verified against.
    pub(super) fn expected(&self) -> Vec<Expected> {
        match &self.kinds[..] {
            [] => vec![Expected::List],
            kinds => kinds.iter().copied().map(Expected::Manifests).collect(),
        }
    }
}

/// What the files of a tree are verified against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The list that was named.
    List,
    /// The manifests of one kind.
    Manifests(ManifestKind),
}
