//! Paths that lead to files only by another spelling.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{each_name, keeps_case, key, stat};
use crate::dircopy::walk::name_set::NameSet;

/// Compares the names in paths beneath a directory with the names that the directories list.
///
/// Paths that ascend have the paths beneath each directory in a row. The listings of the
/// directories on the way to the last path are kept, so that each directory is listed once or
/// twice, however many paths lead through it. Directories of file systems that tell names apart are
/// not listed.
#[derive(Debug, Default)]
pub(crate) struct PathSpellings {
    /// The root and the directories on the way to the last path.
    levels: Vec<Level>,
}

/// A directory on the way to the last path.
#[derive(Debug, Default)]
struct Level {
    /// The name that leads to it. Empty for the root.
    name: CString,
    listing: Option<Listing>,
    keeps_case: Option<bool>,
}

#[derive(Debug)]
struct Listing {
    names: NameSet,
    /// The times of the directory before it was listed.
    changed: Changed,
}

/// The times of modification and of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Changed([(i64, u64); 2]);

impl PathSpellings {
    /// Whether a path beneath `root` leads to a file only because a directory does not tell one of
    /// its names from another spelling. False if that cannot be found out. `root` must be the same
    /// in all calls.
    pub(crate) fn is_spelled_otherwise(&mut self, root: BorrowedFd<'_>, path: &[u8]) -> bool {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut above: Option<OwnedFd> = None;
        let mut leading = CString::default();
        for (depth, name) in path.split(|byte| *byte == b'/').enumerate() {
            let Ok(name) = CString::new(name) else {
                return false;
            };
            let directory = above.as_ref().map_or(root, OwnedFd::as_fd);
            if self.level(depth, leading).is_otherwise(directory, &name) {
                return true;
            }
            above = rustix::fs::openat(directory, &*name, flags, Mode::empty()).ok();
            if above.is_none() {
                // The last name is usually not a directory.
                return false;
            }
            leading = name;
        }
        false
    }

    /// The level at this depth. If it was another directory's, it and those beneath are dropped.
    fn level(&mut self, depth: usize, name: CString) -> &mut Level {
        if self
            .levels
            .get(depth)
            .is_none_or(|level| level.name != name)
        {
            self.levels.truncate(depth);
            self.levels.push(Level {
                name,
                ..Level::default()
            });
        }
        &mut self.levels[depth]
    }
}

impl Level {
    /// Whether the directory finds a name that it does not list, and lists names in the case in
    /// which they were created.
    fn is_otherwise(&mut self, directory: BorrowedFd<'_>, name: &CStr) -> bool {
        let is_found = |other: &CString| stat(directory, other).is_some();
        stat(directory, name).is_some()
            && key::variants(name).iter().any(is_found)
            && self.keeps_case != Some(false)
            && !self.lists(directory, name).unwrap_or(true)
            // This changes the directory, so that it comes before the last listing.
            && *self.keeps_case.get_or_insert_with(|| keeps_case(directory))
            && !self.lists_now(directory, name).unwrap_or(true)
    }

    /// Whether the kept listing has a name.
    fn lists(&mut self, directory: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
        let listing = match &mut self.listing {
            Some(listing) => listing,
            none => none.insert(Listing::of(directory)?),
        };
        Ok(listing.names.has(name))
    }

    /// Whether the directory lists a name, if it has changed since it was listed.
    fn lists_now(&mut self, directory: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
        let now = Changed::of(directory)?;
        self.listing.take_if(|listing| listing.changed != now);
        self.lists(directory, name)
    }
}

impl Listing {
    fn of(directory: BorrowedFd<'_>) -> Result<Self, Errno> {
        let changed = Changed::of(directory)?;
        let mut names = NameSet::default();
        each_name(directory, |name, _| names.add(name))?;
        names.finish();
        Ok(Self { names, changed })
    }
}

impl Changed {
    fn of(directory: BorrowedFd<'_>) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(directory)?;
        let modified = (stat.st_mtime, stat.st_mtime_nsec);
        Ok(Self([modified, (stat.st_ctime, stat.st_ctime_nsec)]))
    }
}
