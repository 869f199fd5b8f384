//! The progress of a verification, for a display.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::dircopy::walk::prescan::Total;

/// Counters that the verifying threads share with a display.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    bytes: AtomicU64,
    files: AtomicU64,
    failed: AtomicU64,
    /// Whether a display shows how much there is to verify.
    wants_total: AtomicBool,
    total: Total,
    /// The trees whose files are not all counted in `total` yet.
    uncounted_trees: AtomicUsize,
}

impl Progress {
    /// The bytes that were read, including those of files that failed later.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The files that were verified, whatever the result.
    pub(crate) fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// The files that do not match, or could not be read.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Asks for the total.
    pub(crate) fn want_total(&self) {
        self.wants_total.store(true, Ordering::Relaxed);
    }

    pub(super) fn wants_total(&self) -> bool {
        self.wants_total.load(Ordering::Relaxed)
    }

    /// How much there is to verify, as far as it has been counted.
    pub(crate) fn total(&self) -> &Total {
        &self.total
    }

    /// Sets the number of trees. The total is complete once all of them are counted.
    pub(super) fn expect_trees(&self, n_trees: usize) {
        self.uncounted_trees.store(n_trees, Ordering::Relaxed);
    }

    /// Adds to the number of trees. The last one is not counted yet.
    pub(super) fn expect_more_trees(&self, n_trees: usize) {
        self.uncounted_trees.fetch_add(n_trees, Ordering::AcqRel);
    }

    /// Records that all files of one tree are in the total.
    pub(super) fn add_counted_tree(&self) {
        if self.uncounted_trees.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.total.complete();
        }
    }

    pub(super) fn add_bytes(&self, n_bytes: u64) {
        self.bytes.fetch_add(n_bytes, Ordering::Relaxed);
    }

    pub(super) fn add_file(&self, is_match: bool) {
        self.files.fetch_add(1, Ordering::Relaxed);
        if !is_match {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes back a file that failed, and the bytes that were read, since it is verified again.
    pub(super) fn take_back_failure(&self, n_bytes: u64) {
        self.files.fetch_sub(1, Ordering::Relaxed);
        self.failed.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(n_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_complete_once_every_tree_is_counted() {
        let progress = Progress::default();
        progress.expect_trees(2);
        progress.add_counted_tree();
        assert!(!progress.total().is_complete());
        progress.add_counted_tree();
        assert!(progress.total().is_complete());
    }
}
