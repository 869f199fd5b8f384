//! Finds out whether a directory tells apart names that differ in case or composition.
//!
//! - `key`: names that a file system may not tell apart (pure).
//! - `listed_paths`: the paths by which directories list files that other spellings lead to.
//! - `names`: all names in a directory, by folded name.
//! - `paths`: paths that lead to files by another spelling.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::listing;
use crate::dircopy::stat::identity;
use crate::dircopy::write::atomic_file::temp_name;

pub(crate) mod key;
pub(crate) mod listed_paths;
pub(crate) mod names;
pub(crate) mod paths;

/// The names in a directory that fold to the same as one name.
pub(crate) struct Spellings {
    pub(crate) names: Vec<CString>,
}

impl Spellings {
    pub(crate) fn list(directory: BorrowedFd<'_>, name: &CStr) -> Result<Self, Errno> {
        let folded = key::fold(name.to_bytes());
        let mut names = Vec::new();
        each_name(directory, |listed, _| {
            if key::fold(listed.to_bytes()) == folded {
                names.push(listed.to_owned());
            }
        })?;
        Ok(Self { names })
    }

    fn has(&self, name: &CStr) -> bool {
        self.names.iter().any(|listed| **listed == *name)
    }
}

/// Whether a directory of the destination finds a file by another spelling than it lists.
pub(crate) fn is_folded(
    directory: BorrowedFd<'_>,
    name: &CStr,
    listed: &Spellings,
    colliding: &[CString],
) -> bool {
    let is_found = |other: &CString| !listed.has(other) && stat(directory, other).is_some();
    !listed.has(name) || colliding.iter().chain(&key::variants(name)).any(is_found)
}

/// Whether two names of the source stand for one file of the destination.
pub(crate) fn is_same(
    directory: BorrowedFd<'_>,
    name: &CStr,
    colliding: &CStr,
    listed: &Spellings,
) -> bool {
    let Some(found) = stat(directory, colliding) else {
        return false;
    };
    if listed.has(name) && listed.has(colliding) {
        return false;
    }
    let is_third = |listed: &CString| **listed != *name && **listed != *colliding;
    if !listed.names.iter().any(is_third) {
        return true;
    }
    // Some FUSE file systems give each spelling an inode number of its own.
    let is_alike = |other: Stat| {
        let facts = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        identity(&other) == identity(&found) || facts(&other) == facts(&found)
    };
    stat(directory, name).is_some_and(is_alike)
}

/// Creates a file to find out whether a directory lists names in the case in which they were
/// created. False if no file can be created.
pub(crate) fn keeps_case(directory: BorrowedFd<'_>) -> bool {
    const N_TRIES: u32 = 10;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let make =
        |name: &CStr| rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR).map(drop);
    for _ in 0..N_TRIES {
        let Ok(((), name)) = temp_name::make(make) else {
            return false;
        };
        let mut is_listed = false;
        let listed = each_name(directory, |listed, _| is_listed |= *listed == *name);
        temp_name::remove(directory, &name);
        // One of a hundred random names has no upper-case letter, and tells nothing.
        if name.to_bytes().iter().any(u8::is_ascii_uppercase) {
            return listed.is_ok() && is_listed;
        }
    }
    false
}

/// Calls `show` for every name in a directory, from its beginning.
pub(crate) fn each_name(
    directory: BorrowedFd<'_>,
    show: impl FnMut(&CStr, FileType),
) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(directory, c".", flags, Mode::empty())?;
    listing::each(directory.as_fd(), show)
}

pub(crate) fn stat(directory: BorrowedFd<'_>, name: &CStr) -> Option<Stat> {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()
}
