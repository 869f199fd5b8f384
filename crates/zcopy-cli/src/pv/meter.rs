//! How far the transfer has come: written by the thread that moves bytes, read by the one that shows it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use zcopy::{Progress, Strategy};

use super::witness::{Counted, Witness};

/// How far the transfer has come.
#[derive(Debug)]
pub(crate) struct Meter {
    counted: Counted,
    /// What the output has accepted of the inputs before this one.
    before: Amount,
    /// And of this one.
    now: Amount,
    /// What has passed, to the byte, where somebody has to know at once.
    passed: AtomicU64,
    strategy: Mutex<Option<Strategy>>,
    witness: Mutex<Witness>,
}

#[derive(Debug, Default)]
struct Amount {
    bytes: AtomicU64,
    records: AtomicU64,
}

impl Meter {
    pub(crate) fn new(counted: Counted, witness: Witness) -> Self {
        Self {
            counted,
            before: Amount::default(),
            now: Amount::default(),
            passed: AtomicU64::new(0),
            strategy: Mutex::new(None),
            witness: Mutex::new(witness),
        }
    }

    /// Takes note of how far one input's transfer has come.
    pub(crate) fn note(&self, progress: &Progress) {
        self.now.bytes.store(progress.bytes(), Ordering::Relaxed);
        self.now
            .records
            .store(progress.records(), Ordering::Relaxed);
        *lock(&self.strategy) = Some(progress.strategy());
    }

    /// Takes note that an input has come to its end, with so many bytes and records.
    pub(crate) fn end_of_input(&self, bytes: u64, records: u64) {
        // First the sum: whoever reads in between sees too much for a moment rather than too little for ever.
        self.now.bytes.store(0, Ordering::Relaxed);
        self.now.records.store(0, Ordering::Relaxed);
        self.before.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.before.records.fetch_add(records, Ordering::Relaxed);
    }

    /// The bytes that the output has accepted.
    pub(crate) fn bytes(&self) -> u64 {
        self.before.bytes.load(Ordering::Relaxed) + self.now.bytes.load(Ordering::Relaxed)
    }

    /// What the output has accepted, in what is counted.
    pub(crate) fn counted(&self) -> u64 {
        match self.counted {
            Counted::Bytes => self.bytes(),
            Counted::Records(_) => {
                self.before.records.load(Ordering::Relaxed)
                    + self.now.records.load(Ordering::Relaxed)
            }
        }
    }

    /// Whether bytes are what is counted.
    pub(crate) fn counts_bytes(&self) -> bool {
        self.counted == Counted::Bytes
    }

    /// Takes note that the output has just accepted so many bytes more.
    pub(crate) fn pass(&self, bytes: usize) {
        self.passed.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// How many bytes that has been told of.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// What moves the bytes, once some have been moved.
    pub(crate) fn strategy(&self) -> Option<Strategy> {
        *lock(&self.strategy)
    }

    /// Who sees the bytes.
    pub(crate) fn witness(&self) -> MutexGuard<'_, Witness> {
        lock(&self.witness)
    }
}

/// What is behind a lock is sound even after a panic: every update is whole.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
