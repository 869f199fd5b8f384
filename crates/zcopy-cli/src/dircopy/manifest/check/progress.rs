//! How far a verification is, for a display beside it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that the verifying threads share with a display.
#[derive(Debug, Default)]
pub(in crate::dircopy) struct Progress {
    bytes: AtomicU64,
    files: AtomicU64,
    failed: AtomicU64,
}

impl Progress {
    /// The bytes that were read, also of files that failed later.
    pub(in crate::dircopy) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The files that were verified, whatever the result.
    pub(in crate::dircopy) fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// The files that do not match, or could not be read.
    pub(in crate::dircopy) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn add_bytes(&self, n_bytes: usize) {
        self.bytes.fetch_add(n_bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn add_file(&self, is_match: bool) {
        self.files.fetch_add(1, Ordering::Relaxed);
        if !is_match {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}
