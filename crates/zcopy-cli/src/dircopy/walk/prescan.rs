//! Counts the files and bytes to copy, while they are being copied.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, FileType};

use super::Exclude;
use super::scan::{Next, ScanOptions, scan};
use crate::dircopy::counts::Count;
use crate::dircopy::stat::identity;
use crate::dircopy::stat::size;
use crate::dircopy::stop_flag::StopFlag;
use crate::dircopy::write::atomic_file::temp_name;

/// The files and bytes that have been found so far.
#[derive(Debug, Default)]
pub(crate) struct Total {
    bytes: Count,
    files: Count,
    is_complete: AtomicBool,
}

impl Total {
    /// The bytes of regular files. A file with several names counts once.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// The number of names of regular files.
    pub(crate) fn files(&self) -> u64 {
        self.files.get()
    }

    /// Whether the counts are final. Load this before the counts.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }

    /// Counts a name of a regular file.
    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.add(bytes);
        self.files.add(1);
    }

    /// Marks the counts as final.
    pub(crate) fn complete(&self) {
        self.is_complete.store(true, Ordering::Release);
    }
}

/// Counts the regular files that a walk from the source returns. Stops when the flag is set, and
/// leaves the total incomplete.
///
/// Only directories are opened. The counts are wrong if the tree changes in the meantime. Errors
/// are ignored: the walk meets them too, and reports them.
pub(crate) fn prescan(
    source: BorrowedFd<'_>,
    options: ScanOptions,
    exclude: &Exclude,
    total: &Total,
    stop: &StopFlag,
) {
    // Files with several names that have been counted by one of them.
    let mut counted = HashSet::new();
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
            && !temp_name::is_temp_name(found.name.to_bytes())
            && let Ok(stat) = rustix::fs::statat(found.directory, found.name, flags)
        {
            let is_first = stat.st_nlink <= 1 || counted.insert(identity(&stat));
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
