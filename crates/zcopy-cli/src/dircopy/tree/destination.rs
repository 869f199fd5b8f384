//! The directories of the destination, made and opened.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{DIRECTORY, reopen};
use crate::dircopy::attributes::{Named, hold};
use crate::dircopy::place::hidden;

/// Its owner may do everything, and nobody else may do anything, until it has the attributes of its original.
const PRIVATE: Mode = Mode::RWXU;

/// A directory of the destination.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) directory: OwnedFd,
    /// Whether it did not exist before.
    pub(super) is_new: bool,
}

/// Opens the root of the destination, and makes it if need be, with all directories above it.
pub(super) fn make_root(path: &Path) -> io::Result<Made> {
    let is_new = match rustix::fs::stat(path) {
        Ok(_) => false,
        Err(Errno::NOENT) => make_with_parents(path)?,
        Err(errno) => return Err(errno.into()),
    };
    let open = || rustix::fs::open(path, DIRECTORY - OFlags::NOFOLLOW, Mode::empty());
    let directory = match open() {
        Err(Errno::ACCESS) => {
            rustix::fs::chmod(path, opened_up(&rustix::fs::stat(path)?))?;
            open()?
        }
        opened => opened?,
    };
    prepare(&directory, is_new)?;
    Ok(Made { directory, is_new })
}

/// Makes the root and all directories above it, unless somebody else has just done so.
fn make_with_parents(path: &Path) -> io::Result<bool> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match rustix::fs::mkdir(path, PRIVATE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens a directory of the destination, and makes it if need be. A symbolic link is not followed, but in the way.
pub(super) fn make(parent: BorrowedFd<'_>, name: &CStr) -> Result<Made, Errno> {
    let created = rustix::fs::mkdirat(parent, name, PRIVATE);
    match created {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let directory = match reopen(parent, name) {
        Err(Errno::ACCESS) => {
            let directory = parent;
            let (held, path) = hold(Named { directory, name })?;
            // A symbolic link has no mode, so that this one would be refused.
            rustix::fs::chmod(path, opened_up(&rustix::fs::fstat(&held)?))?;
            reopen(parent, name)?
        }
        opened => opened?,
    };
    let is_new = created.is_ok();
    prepare(&directory, is_new)?;
    Ok(Made { directory, is_new })
}

/// The mode of a directory that is a copy of one that may not be read or written, so that its owner may.
fn opened_up(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o7777) | PRIVATE
}

/// Has its owner be allowed to fill it, and removes what killed runs have left there, unless it has just been created.
fn prepare(directory: &OwnedFd, is_new: bool) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(directory)?;
    if !Mode::from_raw_mode(stat.st_mode).contains(PRIVATE) {
        match rustix::fs::fchmod(directory, opened_up(&stat)) {
            // Somebody else's may be open to all the same.
            Ok(()) | Err(Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
    }
    if !is_new {
        // What cannot be read can still be filled.
        let _ = hidden::sweep(directory.as_fd());
    }
    Ok(())
}
