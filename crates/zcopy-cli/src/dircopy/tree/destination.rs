//! The directories of the destination, made and opened.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{DIRECTORY, reopen};
use crate::dircopy::attributes::{Named, hold};
use crate::dircopy::place::hidden;

/// Its owner may do everything, and nobody else may do anything, until it has the attributes of its original.
const PRIVATE: Mode = Mode::RWXU;

/// Opens the root of the destination, and makes it if need be, with all directories above it.
pub(super) fn make_root(path: &Path) -> io::Result<OwnedFd> {
    let made = match rustix::fs::mkdir(path, PRIVATE) {
        Err(Errno::NOENT) => {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            rustix::fs::mkdir(path, PRIVATE)
        }
        made => made,
    };
    let followed = DIRECTORY - OFlags::NOFOLLOW;
    let directory = match rustix::fs::open(path, followed, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let mode = Mode::from_raw_mode(rustix::fs::stat(path)?.st_mode & 0o7777);
            rustix::fs::chmod(path, mode | PRIVATE)?;
            rustix::fs::open(path, followed, Mode::empty())?
        }
        opened => opened?,
    };
    prepare(&directory, made)?;
    Ok(directory)
}

/// Opens a directory of the destination, and makes it if need be. A symbolic link is not followed, but in the way.
pub(super) fn make(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let made = rustix::fs::mkdirat(parent, name, PRIVATE);
    match made {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let directory = match reopen(parent, name) {
        Err(Errno::ACCESS) => {
            allow(parent, name)?;
            reopen(parent, name)?
        }
        opened => opened?,
    };
    prepare(&directory, made)?;
    Ok(directory)
}

/// Has its owner be allowed to open a directory, which is a copy of one that may not be read.
fn allow(parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let directory = parent;
    let (held, path) = hold(Named { directory, name })?;
    let stat = rustix::fs::fstat(&held)?;
    // A symbolic link has no mode, so that this one would be refused.
    rustix::fs::chmod(path, Mode::from_raw_mode(stat.st_mode & 0o7777) | PRIVATE)
}

/// Has its owner be allowed to fill it, and removes what killed runs have left there, unless it is new.
fn prepare(directory: &OwnedFd, made: Result<(), Errno>) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(directory)?.st_mode & 0o7777);
    if !mode.contains(PRIVATE) {
        match rustix::fs::fchmod(directory, mode | PRIVATE) {
            // Somebody else's may be open to all the same.
            Ok(()) | Err(Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
    }
    if made.is_err() {
        // What cannot be read can still be filled.
        let _ = hidden::sweep(directory.as_fd());
    }
    Ok(())
}
