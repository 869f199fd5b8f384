//! Directories that were closed to spare descriptors, and are opened again.
//!
//! A directory is reached through `..` of one below it, or by its names from the root. Somebody may have moved or replaced it in the
//! meantime: only the very directory that was open before is taken.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::entry::Way;
use super::trail::Trail;
use super::{DIRECTORY, reopen};
use crate::dircopy::containment::{Identity, identity};

/// When a file was created: `stx_btime` of `statx(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Birth {
    seconds: i64,
    nanoseconds: u32,
}

impl Birth {
    /// That of an open file, where the file system tells it.
    pub(super) fn of(file: impl AsFd) -> Option<Self> {
        let flags = StatxFlags::BTIME;
        let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, flags).ok()?;
        let is_told = stat.stx_mask & flags.bits() != 0;
        is_told.then_some(Self {
            seconds: stat.stx_btime.tv_sec,
            nanoseconds: stat.stx_btime.tv_nsec,
        })
    }
}

/// What tells a directory from all others. The number of one that was removed is given to another soon, which was created later.
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

    /// Takes a directory if it is this one.
    fn check(self, directory: OwnedFd) -> io::Result<OwnedFd> {
        let is_same_number = identity(&rustix::fs::fstat(&directory)?) == self.identity;
        if is_same_number && (self.birth.is_none() || Birth::of(&directory) == self.birth) {
            return Ok(directory);
        }
        Err(io::Error::other("it was moved or replaced during the run"))
    }
}

/// Which links are followed on the way from the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// Those that were followed when the walk came by.
    Source,
    /// None.
    Destination,
}

/// Opens the directory that `child` is in, if that is the one that is looked for.
pub(super) fn above(child: BorrowedFd<'_>, wanted: DirectoryId) -> Option<OwnedFd> {
    let opened = reopen(child, c"..").ok()?;
    wanted.check(opened).ok()
}

/// Opens a directory by its names from the root.
///
/// # Errors
///
/// What `open(2)` says; another directory bears the name.
pub(super) fn by_names(
    root: BorrowedFd<'_>,
    trail: &Trail,
    tree: Tree,
    wanted: DirectoryId,
) -> io::Result<OwnedFd> {
    let mut at = None;
    let mut steps = trail.steps().into_iter().peekable();
    while let Some((name, way)) = steps.next() {
        let here = at.as_ref().map_or(root, OwnedFd::as_fd);
        let mut flags = DIRECTORY;
        if (tree, way) == (Tree::Source, Way::Link) {
            flags -= OFlags::NOFOLLOW;
        }
        if steps.peek().is_some() {
            // It need not be readable.
            flags |= OFlags::PATH;
        }
        at = Some(rustix::fs::openat(here, name, flags, Mode::empty())?);
    }
    match at {
        Some(directory) => wanted.check(directory),
        None => wanted.check(reopen(root, c".")?),
    }
}

/// Counts the descriptors that this process has open. `None`, if there is no `/proc`.
pub(in crate::dircopy) fn count_open() -> Option<usize> {
    let directory = rustix::fs::open("/proc/self/fd", DIRECTORY, Mode::empty()).ok()?;
    let own = directory.as_raw_fd().to_string();
    let mut n_open = 0;
    let counted = crate::dircopy::listing::each(directory.as_fd(), |name, _| {
        n_open += usize::from(name.to_bytes() != own.as_bytes());
    });
    counted.ok().map(|()| n_open)
}
