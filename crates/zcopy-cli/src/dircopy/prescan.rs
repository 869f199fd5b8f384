//! How much there is to copy, found out while it is being copied.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, FileType};

use super::containment::identity;
use super::counts::Count;
use super::reading::size;
use super::stop_flag::StopFlag;
use super::tree::Exclude;
use super::tree::scan::{Next, ScanOptions, scan};

/// What has been found so far.
#[derive(Debug, Default)]
pub(super) struct Total {
    bytes: Count,
    files: Count,
    is_complete: AtomicBool,
}

impl Total {
    /// Bytes of regular files, once for all names of a file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Names of regular files.
    pub(super) fn files(&self) -> u64 {
        self.files.get()
    }

    /// Whether that is all. Ask before the numbers, which then are the last.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }

    /// Counts one name of a regular file.
    pub(super) fn add(&self, bytes: u64) {
        self.bytes.add(bytes);
        self.files.add(1);
    }

    /// Says that this is all.
    pub(super) fn complete(&self) {
        self.is_complete.store(true, Ordering::Release);
    }
}

/// Counts what a walk from the source is going to give. Stops when the flag is set, and the total stays incomplete.
///
/// Nothing is opened but directories. A tree that changes meanwhile is miscounted. Errors are passed over: the walk meets them too,
/// and reports them.
pub(super) fn prescan(
    source: BorrowedFd<'_>,
    options: ScanOptions,
    exclude: &Exclude,
    total: &Total,
    stop: &StopFlag,
) {
    // Of files with several names, those that have been met by one.
    let mut met = HashSet::new();
    let flags = if options.follows_symlinks {
        AtFlags::empty()
    } else {
        AtFlags::SYMLINK_NOFOLLOW
    };
    let mut is_complete = true;
    scan(source, options, |found| {
        if stop.is_set() {
            is_complete = false;
            return Next::Stop;
        }
        let Ok(found) = found else {
            return Next::Pass;
        };
        let name = OsStr::from_bytes(found.name.to_bytes());
        let path = || PathBuf::from(OsString::from_vec(found.path()));
        if exclude.matches(name, found.kind == FileType::Directory, path) {
            return Next::Pass;
        }
        if found.kind == FileType::RegularFile
            && let Ok(stat) = rustix::fs::statat(found.directory, found.name, flags)
        {
            let is_first = stat.st_nlink <= 1 || met.insert(identity(&stat));
            total.add(if is_first { size(&stat) } else { 0 });
        }
        Next::Enter
    });
    if is_complete {
        total.complete();
    }
}

#[cfg(test)]
mod tests;
