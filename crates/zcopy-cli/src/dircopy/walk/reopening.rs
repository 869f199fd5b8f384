//! Opens directories again that were closed to spare descriptors.
//!
//! A directory is reached through `..` of one below it, or by its names from the root. Another
//! process may have moved or replaced it in the meantime: only the directory that was open before
//! is accepted.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::follow_link::FollowLink;
use super::path_node::PathNode;
use super::{DIRECTORY, reopen};
use crate::dircopy::stat::{Birth, Identity, identity};

/// Identifies a directory. The time of creation tells it from a later one that has got the inode
/// number of a removed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectoryId {
    pub(super) identity: Identity,
    pub(super) birth: Option<Birth>,
}

impl DirectoryId {
    pub(super) fn of(directory: impl AsFd) -> Result<Self, Errno> {
        Ok(Self {
            identity: identity(&rustix::fs::fstat(&directory)?),
            birth: Birth::of(directory),
        })
    }

    /// Returns the directory if it is this one.
    fn check(self, directory: OwnedFd) -> io::Result<OwnedFd> {
        let is_same_number = identity(&rustix::fs::fstat(&directory)?) == self.identity;
        if is_same_number && (self.birth.is_none() || Birth::of(&directory) == self.birth) {
            return Ok(directory);
        }
        Err(io::Error::other("it was moved or replaced during the run"))
    }
}

/// The tree in which a directory is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// Links are followed if the walk has followed them.
    Source,
    /// No link is followed.
    Destination,
}

/// Opens the parent of `child`, if that is the wanted directory.
pub(super) fn above(child: BorrowedFd<'_>, wanted: DirectoryId) -> Option<OwnedFd> {
    let opened = reopen(child, c"..").ok()?;
    wanted.check(opened).ok()
}

/// Opens a directory by its names from the root.
///
/// # Errors
///
/// Those of `open(2)`; another directory has the name.
pub(super) fn by_names(
    root: BorrowedFd<'_>,
    node: &PathNode,
    tree: Tree,
    wanted: DirectoryId,
) -> io::Result<OwnedFd> {
    let mut at = None;
    let mut steps = node.steps().into_iter().peekable();
    while let Some((name, follow)) = steps.next() {
        let here = at.as_ref().map_or(root, OwnedFd::as_fd);
        let mut flags = DIRECTORY;
        if (tree, follow) == (Tree::Source, FollowLink::Yes) {
            flags -= OFlags::NOFOLLOW;
        }
        if steps.peek().is_some() {
            // Directories on the way need not be readable.
            flags |= OFlags::PATH;
        }
        at = Some(rustix::fs::openat(here, name, flags, Mode::empty())?);
    }
    match at {
        Some(directory) => wanted.check(directory),
        None => wanted.check(reopen(root, c".")?),
    }
}

/// The number of descriptors that this process has open. `None` without `/proc`.
pub(crate) fn count_open() -> Option<usize> {
    let directory = rustix::fs::open("/proc/self/fd", DIRECTORY, Mode::empty()).ok()?;
    let own = directory.as_raw_fd().to_string();
    let mut n_open = 0;
    let counted = super::listing::each(directory.as_fd(), |name, _| {
        n_open += usize::from(name.to_bytes() != own.as_bytes());
    });
    counted.ok().map(|()| n_open)
}
