//! The directories of the destination, made and opened.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::map_names::MapNames;
use super::{DIRECTORY, reopen};
use crate::dircopy::attributes::{Named, hold};
use crate::dircopy::listed::Listed;
use crate::dircopy::place::hidden;
use crate::dircopy::st_mode::permissions;

/// Its owner may do everything, and nobody else may do anything, until it has the attributes of its original.
const PRIVATE: Mode = Mode::RWXU;

/// A directory of the destination.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) directory: OwnedFd,
    /// The mode that it had before. None if it did not exist.
    pub(super) former_mode: Option<Mode>,
    /// The names in it, unless they could not be read.
    pub(super) listed: Option<Listed>,
    /// The names in it that maps of damaged files may have.
    pub(super) maps: MapNames,
}

impl Made {
    /// Lets the owner of a directory fill it, and removes what killed runs have left there, unless the directory has just been created.
    fn prepare(directory: OwnedFd, is_new: bool, before: Option<Mode>) -> Result<Self, Errno> {
        let found = permissions(&rustix::fs::fstat(&directory)?);
        if !found.contains(PRIVATE) {
            match rustix::fs::fchmod(&directory, found | PRIVATE) {
                // Somebody else's may be open to all the same.
                Ok(()) | Err(Errno::PERM) => {}
                Err(errno) => return Err(errno),
            }
        }
        let (mut listed, mut maps) = (Listed::default(), MapNames::default());
        // What cannot be read can still be filled.
        let read = if is_new {
            Ok(())
        } else {
            hidden::sweep(directory.as_fd(), |name| {
                listed.add(name);
                maps.add(name);
            })
        };
        listed.finish();
        Ok(Self {
            directory,
            former_mode: (!is_new).then(|| before.unwrap_or(found)),
            listed: read.is_ok().then_some(listed),
            maps,
        })
    }

    /// Gives a directory that nothing comes to the mode that it had before.
    pub(super) fn restore_mode(&self) -> Result<(), Errno> {
        match self.former_mode {
            Some(mode) => restore_mode(self.directory.as_fd(), mode),
            None => Ok(()),
        }
    }
}

/// Opens the root of the destination, and makes it if need be, with all directories above it.
pub(super) fn make_root(path: &Path) -> io::Result<Made> {
    let is_new = match rustix::fs::stat(path) {
        Ok(_) => false,
        Err(Errno::NOENT) => make_with_parents(path)?,
        Err(errno) => return Err(errno.into()),
    };
    let open = || rustix::fs::open(path, DIRECTORY - OFlags::NOFOLLOW, Mode::empty());
    let mut before = None;
    let directory = match open() {
        Err(Errno::ACCESS) => {
            let mode = permissions(&rustix::fs::stat(path)?);
            rustix::fs::chmod(path, mode | PRIVATE)?;
            before = Some(mode);
            open()?
        }
        opened => opened?,
    };
    Ok(Made::prepare(directory, is_new, before)?)
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

/// Makes a directory of the destination. False, if something has the name already.
pub(super) fn create(parent: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
    match rustix::fs::mkdirat(parent, name, PRIVATE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Opens a directory of the destination. A symbolic link is not followed, but in the way.
pub(super) fn open(parent: BorrowedFd<'_>, name: &CStr, is_new: bool) -> Result<Made, Errno> {
    let mut before = None;
    let directory = match reopen(parent, name) {
        Err(Errno::ACCESS) => {
            let directory = parent;
            let (held, path) = hold(Named { directory, name })?;
            let mode = permissions(&rustix::fs::fstat(&held)?);
            // A symbolic link has no mode, so that this one would be refused.
            rustix::fs::chmod(path, mode | PRIVATE)?;
            before = Some(mode);
            reopen(parent, name)?
        }
        opened => opened?,
    };
    Made::prepare(directory, is_new, before)
}

/// Gives a directory that its owner was allowed to fill the mode that it had before.
pub(super) fn restore_mode(directory: BorrowedFd<'_>, former_mode: Mode) -> Result<(), Errno> {
    if former_mode.contains(PRIVATE) {
        return Ok(());
    }
    match rustix::fs::fchmod(directory, former_mode) {
        // Then it had it all the time.
        Err(Errno::PERM) => Ok(()),
        changed => changed,
    }
}
