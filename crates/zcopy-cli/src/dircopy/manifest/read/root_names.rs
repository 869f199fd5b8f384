//! The names of manifests and journals in the root of a tree.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use crate::dircopy::manifest::journal::is_journal;
use crate::dircopy::manifest::name::Name;
use crate::dircopy::stat::is_directory;
use crate::dircopy::walk::listing;

/// The names of manifests, except those that directories have.
pub(crate) fn names_in(root: BorrowedFd<'_>) -> io::Result<Vec<Name>> {
    Ok(names_and_journals_in(root, |_| {})?.0)
}

/// The names of journals.
pub(crate) fn journals_in(root: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for_each_entry(root, |name, kind| {
        if is_journal(name.to_bytes()) && kind != FileType::Directory {
            names.push(name.to_owned());
        }
    })?;
    Ok(names)
}

/// The names of manifests, except those that directories have, and the names of journals. `visit`
/// gets the names of all files.
pub(crate) fn names_and_journals_in(
    root: BorrowedFd<'_>,
    mut visit: impl FnMut(&CStr),
) -> io::Result<(Vec<Name>, Vec<CString>)> {
    let (mut names, mut journals) = (Vec::new(), Vec::new());
    for_each_entry(root, |name, kind| {
        if kind == FileType::Directory {
            return;
        }
        visit(name);
        names.extend(parse_name(name));
        if is_journal(name.to_bytes()) {
            journals.push(name.to_owned());
        }
    })?;
    names.retain(|name| {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statat(root, name.to_string(), flags);
        !stat.is_ok_and(|stat| is_directory(&stat))
    });
    Ok((names, journals))
}

/// Visits the entries of the root with their types, as far as the file system
/// knows them.
fn for_each_entry(root: BorrowedFd<'_>, visit: impl FnMut(&CStr, FileType)) -> io::Result<()> {
    // A new descriptor lists the directory from its beginning, and `root` keeps its offset.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(root, c".", flags, Mode::empty())?;
    Ok(listing::each(directory.as_fd(), visit)?)
}

fn parse_name(name: &CStr) -> Option<Name> {
    name.to_str().ok()?.parse().ok()
}
