//! Refuses to copy a tree into itself.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use crate::dircopy::stat::{Identity, identity};
use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;

/// The relation between source and destination that makes a copy impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Contained {
    /// They are one directory.
    #[error("the destination is the source")]
    Same,
    /// The copy would become part of the source.
    #[error("the destination is inside the source")]
    Beneath,
}

/// Refuses a destination that is the source or lies beneath it, also through links and mounts. The
/// destination need not exist: its nearest existing ancestor is examined.
///
/// The function climbs from the destination to the root of the file system, and compares the
/// identity of each directory with that of the source. It does not recognise a bind mount of a
/// directory beneath the source: for that case the [walk](super::Walk) does not enter the
/// destination when it meets it.
///
/// # Errors
///
/// [`Contained`], in an error of the kind `InvalidInput`; `ENOENT` for a destination with `..`
/// after a name that does not exist; and those of `open(2)`, except `EACCES` on the way up.
pub(crate) fn check(source: &Stat, destination: &Path) -> io::Result<()> {
    let place = Place::of(destination)?;
    let contained = if place.names.is_empty() {
        Contained::Same
    } else {
        Contained::Beneath
    };
    climb(identity(source), place.ancestor.as_fd(), contained)
}

/// The same for an open destination.
pub(crate) fn check_open(source: &Stat, destination: BorrowedFd<'_>) -> io::Result<()> {
    climb(identity(source), destination, Contained::Same)
}

/// Looks for the source from a directory upwards. The error is `contained` if the directory itself
/// is the source.
fn climb(source: Identity, from: BorrowedFd<'_>, contained: Contained) -> io::Result<()> {
    match relation(source, from)? {
        None => Ok(()),
        Some(Contained::Same) => Err(refused(contained)),
        Some(Contained::Beneath) => Err(refused(Contained::Beneath)),
    }
}

/// Whether a directory is `upper` or lies beneath it. `None` if neither.
///
/// # Errors
///
/// Those of `open(2)`, except `EACCES`.
pub(crate) fn relation(upper: Identity, from: BorrowedFd<'_>) -> io::Result<Option<Contained>> {
    let mut here = identity(&rustix::fs::fstat(from)?);
    if here == upper {
        return Ok(Some(Contained::Same));
    }
    let mut at = None;
    loop {
        let below = at.as_ref().map_or(from, OwnedFd::as_fd);
        let parent = match rustix::fs::openat(below, c"..", UP, Mode::empty()) {
            Ok(parent) => parent,
            // Without search permission here, the process has reached the destination by another
            // path.
            Err(Errno::ACCESS) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let above = identity(&rustix::fs::fstat(&parent)?);
        if above == upper {
            return Ok(Some(Contained::Beneath));
        }
        // Only the root is its own parent.
        if above == here {
            return Ok(None);
        }
        here = above;
        at = Some(parent);
    }
}

/// The flags to open directories that are only passed through.
const UP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A directory that need not exist: its nearest existing ancestor, and the names below it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) ancestor: OwnedFd,
    pub(crate) names: Vec<OsString>,
}

impl Place {
    /// Finds the place of a directory.
    ///
    /// # Errors
    ///
    /// `ENOENT` for a path with `..` after a name that does not exist; and those of `open(2)`.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let mut path = path;
        let mut names = Vec::new();
        loop {
            let is_here = path.as_os_str().is_empty();
            let opened = if is_here { Path::new(".") } else { path };
            match rustix::fs::open(opened, UP, Mode::empty()) {
                Ok(ancestor) => {
                    names.reverse();
                    return Ok(Self { ancestor, names });
                }
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
            // `..` after a name that does not exist leads to no known directory.
            path = match (path.components().next_back(), path.parent()) {
                (Some(Component::Normal(name)), Some(parent)) => {
                    names.push(name.to_owned());
                    parent
                }
                _ => return Err(Errno::NOENT.into()),
            };
        }
    }
}

fn refused(contained: Contained) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, contained)
}

#[cfg(test)]
mod tests;
