//! Counts files and bytes during a run.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of a run. All threads add to them, and the display reads them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Bytes of regular files that were copied, cloned or read, also of files that failed later.
    pub(crate) bytes: Count,
    /// Bytes of the files that `files` counts.
    pub(crate) bytes_of_files: Count,
    /// Regular files that have their names: the sum of `copied`, `cloned`, `linked` and `skipped`.
    pub(crate) files: Count,
    /// Regular files whose bytes were written.
    pub(crate) copied: Count,
    /// Regular files that share their blocks with the source.
    pub(crate) cloned: Count,
    /// Additional names of regular files that became links.
    pub(crate) linked: Count,
    /// Additional names of regular files that became copies of their own. `copied` and `cloned`
    /// count them too.
    pub(crate) links_copied: Count,
    /// Copied, cloned and linked files that replaced a file of the destination.
    pub(crate) replaced: Count,
    /// Records of files that were replaced by copies without a digest.
    pub(crate) records_dropped: Count,
    /// Entries of the destination that were moved, as the source lacks them.
    pub(crate) moved: Count,
    /// Regular files that were begun by an earlier run. `copied` counts them too.
    pub(crate) resumed: Count,
    /// The number of bytes that the earlier runs had copied of them.
    pub(crate) resumed_bytes: Count,
    /// Regular files whose names in the destination were left as they were, whatever has them.
    pub(crate) skipped: Count,
    /// Symbolic links, FIFOs and devices that were made or left, and journals of the source.
    pub(crate) others: Count,
    /// Regular files with bytes that could not be read from their originals.
    pub(crate) damaged: Count,
    /// The number of those bytes.
    pub(crate) lost_bytes: Count,
    /// Entries whose attributes could not all be kept, for another reason than the file system.
    pub(crate) attributes_not_kept: Count,
    /// Files that were read back with `O_DIRECT`.
    pub(crate) read_past_cache: Count,
    /// Files that were read back after their pages had been dropped from the page cache.
    pub(crate) read_after_drop: Count,
    /// Files that were read back from memory.
    pub(crate) read_from_memory: Count,
    /// Files that were read back from a server, a process or another file system.
    pub(crate) read_from_elsewhere: Count,
    /// All other errors that were reported.
    pub(crate) failed: Count,
}

impl Counts {
    /// Whether something failed, or attributes could not be kept.
    pub(crate) fn has_errors(&self) -> bool {
        self.failed.get() > 0 || self.attributes_not_kept.get() > 0
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds `n`.
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The number so far.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
