//! That a tree is not copied into itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;

/// Which directory it is, whatever it is called: device and number.
pub(super) type Identity = (u64, u64);

/// Why a tree cannot be copied there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contained {
    /// The two are one directory.
    #[error("the destination is the source")]
    Same,
    /// A copy would be copied again.
    #[error("the destination is inside the source")]
    Beneath,
}

/// Refuses a destination that is the source or lies beneath it, by whatever way it is named. It need not exist: its nearest
/// ancestor that does is looked at.
///
/// A directory is found by its device and number on the way up from the destination. On that way a bind mount of something
/// beneath the source cannot be told from any other directory: the [walk](super::tree::Walk) does not enter the
/// destination, wherever it meets it.
///
/// # Errors
///
/// [`Contained`], in an error of the kind `InvalidInput`; `ENOENT` for a destination with a `..` behind what does not exist; and what
/// `open(2)` says, but for `EACCES` on the way up.
pub fn check(source: &Stat, destination: &Path) -> io::Result<()> {
    let (nearest, contained) = nearest(destination)?;
    climb(identity(source), nearest.as_fd(), contained)
}

/// The same, of a destination that is open.
pub(super) fn check_open(source: &Stat, destination: BorrowedFd<'_>) -> io::Result<()> {
    climb(identity(source), destination, Contained::Same)
}

/// Looks for the source from there upwards, and calls it so if it is met at once.
fn climb(source: Identity, from: BorrowedFd<'_>, contained: Contained) -> io::Result<()> {
    let mut here = identity(&rustix::fs::fstat(from)?);
    if here == source {
        return Err(refused(contained));
    }
    let mut at = None;
    loop {
        let below = at.as_ref().map_or(from, OwnedFd::as_fd);
        let parent = match rustix::fs::openat(below, c"..", UP, Mode::empty()) {
            Ok(parent) => parent,
            // Whoever may not search it has come here from elsewhere.
            Err(Errno::ACCESS) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        let above = identity(&rustix::fs::fstat(&parent)?);
        if above == source {
            return Err(refused(Contained::Beneath));
        }
        // Only the root is its own parent.
        if above == here {
            return Ok(());
        }
        here = above;
        at = Some(parent);
    }
}

/// Which directory it is.
// The fields have other types on other processors.
#[allow(clippy::useless_conversion, reason = "not on every processor")]
pub(super) fn identity(stat: &Stat) -> Identity {
    (stat.st_dev.into(), stat.st_ino.into())
}

/// How directories are opened that are only on the way.
const UP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The destination, or as much of it as exists; and what it would mean if that were the source.
fn nearest(destination: &Path) -> io::Result<(OwnedFd, Contained)> {
    let mut path = destination;
    let mut contained = Contained::Same;
    loop {
        let is_here = path.as_os_str().is_empty();
        let named = if is_here { Path::new(".") } else { path };
        match rustix::fs::open(named, UP, Mode::empty()) {
            Ok(directory) => return Ok((directory, contained)),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        // Where `..` leads is not known before it exists.
        path = match (path.components().next_back(), path.parent()) {
            (Some(Component::Normal(_)), Some(parent)) => parent,
            _ => return Err(Errno::NOENT.into()),
        };
        contained = Contained::Beneath;
    }
}

fn refused(contained: Contained) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, contained)
}

#[cfg(test)]
mod tests;
