//! The names of manifests and journals in the root of a tree.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use super::journal::is_journal;
use super::name::Name;
use crate::dircopy::listing;

/// The names of manifests, except those that directories have.
pub(super) fn names_in(root: BorrowedFd<'_>) -> io::Result<Vec<Name>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(root, c".", flags, Mode::empty())?;
    let mut names = Vec::new();
    listing::each(directory.as_fd(), |name, kind| {
        if let Some(name) = parse_name(name)
            && kind != FileType::Directory
        {
            names.push(name);
        }
    })?;
    names.retain(|name| {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statat(root, name.to_string(), flags);
        !stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    });
    Ok(names)
}

/// The names of journals.
pub(super) fn journals_in(root: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(root, c".", flags, Mode::empty())?;
    let mut names = Vec::new();
    listing::each(directory.as_fd(), |name, kind| {
        if is_journal(name.to_bytes()) && kind != FileType::Directory {
            names.push(name.to_owned());
        }
    })?;
    Ok(names)
}

pub(super) fn parse_name(name: &CStr) -> Option<Name> {
    name.to_str().ok()?.parse().ok()
}
