//! Generations that the list of all generations lacks.

use std::ffi::CString;
use std::io::{self, BufReader};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{Mode, OFlags};

use crate::dircopy::manifest::mhl::chain::{self, Link};
use crate::dircopy::manifest::mhl::history::{GenerationFile, sha512_of};
use crate::dircopy::manifest::read::contents::open_regular;
use crate::dircopy::walk::listing;
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
    pub(super) fn of(directory: BorrowedFd<'_>, listed: &[GenerationFile]) -> io::Result<Self> {
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
        for name in names {
            let has_name = |link: &Link| link.name.as_bytes() == name.to_bytes();
            if !name.to_bytes().ends_with(b".mhl") || listed.iter().any(|file| has_name(&file.link))
            {
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

/// The names in a directory.
fn names_in(directory: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, c".", flags, Mode::empty())?;
    let mut names = Vec::new();
    listing::each(opened.as_fd(), |name, _| names.push(name.to_owned()))?;
    Ok(names)
}
