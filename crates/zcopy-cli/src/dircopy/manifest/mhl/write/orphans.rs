//! Generations that the list of all generations lacks.

use std::ffi::{CStr, CString};
use std::io::{self, BufReader};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{Mode, OFlags};

use crate::dircopy::manifest::mhl::chain::{self, Link};
use crate::dircopy::manifest::mhl::history::sha512_of;
use crate::dircopy::manifest::read::contents::open_regular;
use crate::dircopy::walk::listing;
use crate::dircopy::walk::spelling::{key, stat};
use crate::dircopy::write::atomic_file::temp_name;

/// Generations that the list of all generations lacks.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// A killed run has announced them under a temporary name, and left them.
    pub(super) own: Vec<CString>,
    /// Another program may need them.
    pub(super) kept: Vec<CString>,
}

impl Orphans {
    pub(super) fn of(directory: BorrowedFd<'_>, listed: &[Link]) -> io::Result<Self> {
        let names = names_in(directory)?;
        let mut announced = Vec::new();
        for name in names
            .iter()
            .filter(|name| temp_name::is_temp_name(name.to_bytes()))
        {
            // A run that was killed before it had written the announcement made no generation.
            if let Ok((file, _)) = open_regular(directory, &**name)
                && let Ok(links) = chain::read(BufReader::new(file))
            {
                announced.extend(links);
            }
        }
        let mut orphans = Self::default();
        for name in names.iter().cloned() {
            let has_name = |link: &Link| {
                let is_exact = link.name.as_bytes() == name.to_bytes();
                is_exact || is_listed_otherwise(directory, &names, link, &name)
            };
            if !name.to_bytes().ends_with(b".mhl") || listed.iter().any(has_name) {
                continue;
            }
            let is_own = announced.iter().filter(|link| has_name(link)).any(|link| {
                let file = open_regular(directory, &*name);
                let found = file.and_then(|(file, _)| sha512_of(file));
                found.is_ok_and(|found| found == link.checksum)
            });
            if is_own {
                orphans.own.push(name);
            } else {
                orphans.kept.push(name);
            }
        }
        Ok(orphans)
    }
}

/// Whether a directory lists a generation by this name, which is another spelling of its own.
fn is_listed_otherwise(
    directory: BorrowedFd<'_>,
    names: &[CString],
    link: &Link,
    name: &CStr,
) -> bool {
    let own = link.name.as_bytes();
    key::fold(own) == key::fold(name.to_bytes())
        && names.iter().all(|listed| listed.to_bytes() != own)
        && CString::new(own).is_ok_and(|own| stat(directory, &own).is_some())
}

/// The names in a directory.
fn names_in(directory: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, c".", flags, Mode::empty())?;
    let mut names = Vec::new();
    listing::each(opened.as_fd(), |name, _| names.push(name.to_owned()))?;
    Ok(names)
}
