//! How much there is to copy, found out while it is being copied.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use walkdir::{DirEntry, WalkDir};

use super::counts::Count;
use super::end::End;
use super::tree::Exclude;

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

/// Counts what a walk from the source is going to give. Stops when the end rings, and the total stays incomplete.
///
/// This goes by paths, and nothing is opened but directories. A tree that changes meanwhile is miscounted. Errors are
/// passed over: the walk meets them too, and reports them.
pub(super) fn prescan(
    source: &Path,
    follows: bool,
    one_file_system: bool,
    exclude: &Exclude,
    total: &Total,
    end: &End,
) {
    let walk = WalkDir::new(source)
        .follow_links(follows)
        .same_file_system(one_file_system);
    let walk = walk
        .into_iter()
        .filter_entry(|entry| is_wanted(entry, source, exclude));
    // Of files with several names, those that have been met by one.
    let mut met = HashSet::new();
    for entry in walk {
        if end.has_rung() {
            return;
        }
        let Ok(entry) = entry else { continue };
        if !entry.file_type().is_file() {
            continue;
        }
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        let is_first = metadata.nlink() <= 1 || met.insert((metadata.dev(), metadata.ino()));
        total.add(if is_first { metadata.len() } else { 0 });
    }
    total.complete();
}

/// Whether the walk gives this, or enters it. The root always is.
fn is_wanted(entry: &DirEntry, source: &Path, exclude: &Exclude) -> bool {
    let path = || entry.path().strip_prefix(source).unwrap_or(entry.path());
    let is_directory = entry.file_type().is_dir();
    entry.depth() == 0 || !exclude.matches(entry.file_name(), is_directory, path)
}

#[cfg(test)]
mod tests;
