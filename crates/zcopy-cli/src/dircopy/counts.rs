//! How much of a tree has been dealt with so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// What all threads count together, and whoever displays it reads.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Bytes of regular files that have been copied, cloned or read, also of those that failed then.
    pub(super) bytes: Count,
    /// Bytes of the files below.
    pub(super) bytes_of_files: Count,
    /// Regular files that have got their names or kept them, whichever of the next four they are.
    pub(super) files: Count,
    /// Regular files whose bytes were written.
    pub(super) copied: Count,
    /// Regular files that share their blocks with the source.
    pub(super) cloned: Count,
    /// Further names of regular files.
    pub(super) linked: Count,
    /// Further names of regular files that have become copies of their own, which are counted above.
    pub(super) links_copied: Count,
    /// Regular files that were left as they were.
    pub(super) skipped: Count,
    /// Symbolic links, FIFOs and devices, made or left, and whatever else was left.
    pub(super) others: Count,
    /// Regular files of which bytes are missing, because their originals could not be read.
    pub(super) damaged: Count,
    /// How many bytes are missing of them.
    pub(super) lost_bytes: Count,
    /// What was complained of.
    pub(super) failed: Count,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    /// Counts so many more.
    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// How many there are so far.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
