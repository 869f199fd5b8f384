//! How far the transfer has come: written by the thread that moves bytes, read by the one that shows it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zcopy::{Progress, Strategy};

use super::display::Place;
use super::witness::{Counted, Witness};

/// How far the transfer has come.
#[derive(Debug)]
pub(crate) struct Meter {
    counted: Counted,
    accepted: Mutex<Accepted>,
    /// What has passed, to the byte, where somebody has to know at once.
    passed: AtomicU64,
    witness: Mutex<Witness>,
}

/// What the output has accepted. It is read as a whole: an input that comes to its end is to be neither missed
/// nor counted twice.
#[derive(Debug, Default)]
struct Accepted {
    /// Of the inputs before this one.
    before: Amount,
    /// And of this one.
    now: Amount,
    strategy: Option<Strategy>,
    /// How long the transfer has taken, where another process moves the bytes.
    elapsed: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    bytes: u64,
    records: u64,
}

impl Meter {
    pub(crate) fn new(counted: Counted, witness: Witness) -> Self {
        Self {
            counted,
            accepted: Mutex::default(),
            passed: AtomicU64::new(0),
            witness: Mutex::new(witness),
        }
    }

    /// Takes note of how far one input's transfer has come.
    pub(crate) fn note(&self, progress: &Progress) {
        let mut accepted = lock(&self.accepted);
        accepted.now = Amount {
            bytes: progress.bytes(),
            records: progress.records(),
        };
        accepted.strategy = Some(progress.strategy());
    }

    /// Takes note that an input has come to its end, with so many bytes and records.
    pub(crate) fn end_of_input(&self, bytes: u64, records: u64) {
        let mut accepted = lock(&self.accepted);
        accepted.now = Amount::default();
        accepted.before.bytes += bytes;
        accepted.before.records += records;
    }

    /// Takes note of how far the transfer of another process has come, which has taken `elapsed`.
    pub(crate) fn follow(&self, place: Place, elapsed: Duration) {
        let mut accepted = lock(&self.accepted);
        accepted.now = Amount {
            bytes: place.bytes,
            records: place.counted,
        };
        accepted.elapsed = Some(elapsed);
    }

    /// How long the transfer of another process has taken.
    pub(crate) fn elapsed(&self) -> Option<Duration> {
        lock(&self.accepted).elapsed
    }

    /// How far everything has come.
    pub(crate) fn place(&self) -> Place {
        let (before, now) = {
            let accepted = lock(&self.accepted);
            (accepted.before, accepted.now)
        };
        let bytes = before.bytes + now.bytes;
        Place {
            bytes,
            counted: match self.counted {
                Counted::Bytes => bytes,
                Counted::Records(_) => before.records + now.records,
            },
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
        lock(&self.accepted).strategy
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
