//! How far a verification is, for a display beside it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::dircopy::prescan::Total;

/// Counters that the verifying threads share with a display.
#[derive(Debug, Default)]
pub(in crate::dircopy) struct Progress {
    bytes: AtomicU64,
    files: AtomicU64,
    failed: AtomicU64,
    /// Whether somebody wants to know how much there is to verify.
    wants_total: AtomicBool,
    total: Total,
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

    /// Asks for the total.
    pub(in crate::dircopy) fn want_total(&self) {
        self.wants_total.store(true, Ordering::Relaxed);
    }

    pub(super) fn wants_total(&self) -> bool {
        self.wants_total.load(Ordering::Relaxed)
    }

    /// How much there is to verify, as far as it is known.
    pub(in crate::dircopy) fn total(&self) -> &Total {
        &self.total
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
