//! Makes and opens directories of the destination.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::listing;
use super::map_names::MapNames;
use super::name_set::NameSet;
use super::{DIRECTORY, reopen};
use crate::dircopy::stat::permissions;
use crate::dircopy::write::atomic_file::temp_name::Leftovers;
use crate::dircopy::write::metadata::{Named, hold};

/// The mode of a directory until it gets the attributes of its original.
const PRIVATE: Mode = Mode::RWXU;

/// A directory of the destination that is ready to be filled.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) directory: OwnedFd,
    /// The mode that it had before. `None` if it did not exist.
    pub(super) former_mode: Option<Mode>,
    /// The names in it. `None` if they could not be read.
    pub(super) listed: Option<NameSet>,
    /// The names in it that may be damage maps.
    pub(super) maps: MapNames,
    /// The names in it that killed runs may have left.
    pub(super) leftovers: Leftovers,
}

/// Whether a directory existed before the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Created,
    Existing,
}

impl Made {
    /// Gives the owner access to a directory, and lists it. `before` is its mode before it could be
    /// opened, if that had to be changed.
    fn prepare(directory: OwnedFd, origin: Origin, before: Option<Mode>) -> Result<Self, Errno> {
        let found = permissions(&rustix::fs::fstat(&directory)?);
        if !found.contains(PRIVATE) {
            match rustix::fs::fchmod(&directory, found | PRIVATE) {
                // Another owner's directory may be writable all the same.
                Ok(()) | Err(Errno::PERM) => {}
                Err(errno) => return Err(errno),
            }
        }
        let (mut listed, mut maps) = (NameSet::default(), MapNames::default());
        let mut leftovers = Leftovers::default();
        let read = match origin {
            Origin::Created => Ok(()),
            Origin::Existing => listing::each(directory.as_fd(), |name, kind| {
                listed.add(name);
                maps.add(name);
                leftovers.add(name, kind);
            }),
        };
        listed.finish();
        Ok(Self {
            directory,
            former_mode: match origin {
                Origin::Created => None,
                Origin::Existing => Some(before.unwrap_or(found)),
            },
            // A directory that cannot be read can still be filled.
            listed: read.is_ok().then_some(listed),
            maps,
            leftovers,
        })
    }

    /// Gives a directory that is not filled its former mode again.
    pub(super) fn restore_mode(&self) -> Result<(), Errno> {
        match self.former_mode {
            Some(mode) => restore_mode(self.directory.as_fd(), mode),
            None => Ok(()),
        }
    }
}

/// Opens the root of the destination. Creates it, with all directories above it, if it does not
/// exist.
pub(super) fn make_root(path: &Path) -> io::Result<Made> {
    let origin = match rustix::fs::stat(path) {
        Ok(_) => Origin::Existing,
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
    Ok(Made::prepare(directory, origin, before)?)
}

/// Creates the root and all directories above it, unless another process does so at the same time.
fn make_with_parents(path: &Path) -> io::Result<Origin> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match rustix::fs::mkdir(path, PRIVATE) {
        Ok(()) => Ok(Origin::Created),
        Err(Errno::EXIST) => Ok(Origin::Existing),
        Err(errno) => Err(errno.into()),
    }
}

/// Creates a directory of the destination, unless a file of any type has the name already.
pub(super) fn create(parent: BorrowedFd<'_>, name: &CStr) -> Result<Origin, Errno> {
    match rustix::fs::mkdirat(parent, name, PRIVATE) {
        Ok(()) => Ok(Origin::Created),
        Err(Errno::EXIST) => Ok(Origin::Existing),
        Err(errno) => Err(errno),
    }
}

/// Opens a directory of the destination. A symbolic link is not followed, but an error.
pub(super) fn open(parent: BorrowedFd<'_>, name: &CStr, origin: Origin) -> Result<Made, Errno> {
    let mut before = None;
    let directory = match reopen(parent, name) {
        Err(Errno::ACCESS) => {
            let directory = parent;
            let (held, path) = hold(Named { directory, name })?;
            let mode = permissions(&rustix::fs::fstat(&held)?);
            // If the name is a symbolic link, chmod(2) of the link fails, and its target stays as
            // it is.
            rustix::fs::chmod(path, mode | PRIVATE)?;
            before = Some(mode);
            reopen(parent, name)?
        }
        opened => opened?,
    };
    Made::prepare(directory, origin, before)
}

/// Gives a directory its former mode again, if that denied its owner access.
pub(super) fn restore_mode(directory: BorrowedFd<'_>, former_mode: Mode) -> Result<(), Errno> {
    if former_mode.contains(PRIVATE) {
        return Ok(());
    }
    match rustix::fs::fchmod(directory, former_mode) {
        // Another owner's directory still has that mode.
        Err(Errno::PERM) => Ok(()),
        changed => changed,
    }
}
