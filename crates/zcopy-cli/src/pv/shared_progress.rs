//! The progress of a transfer, written by the thread that moves bytes and read by the display.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zcopy::{Progress, Strategy};

use crate::pv::transfer::inspector::{Counted, Inspector};

/// The progress of a transfer.
#[derive(Debug)]
pub(crate) struct SharedProgress {
    counted: Counted,
    /// Whether an input has been opened.
    has_input: AtomicBool,
    accepted: Mutex<Accepted>,
    /// The exact number of passed bytes, for a terminal that is shared with the display.
    passed: AtomicU64,
    inspector: Mutex<Inspector>,
}

/// A position in the bytes of all inputs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    pub(crate) bytes: u64,
    pub(crate) counted: u64,
}

/// The bytes that the output has accepted. They are read and updated together, so that an input
/// that ends is neither missed nor counted twice.
#[derive(Debug, Default)]
struct Accepted {
    /// The amount of all earlier inputs.
    before: Amount,
    /// The amount of the present input.
    now: Amount,
    strategy: Option<Strategy>,
    /// The elapsed time, if another process moves the bytes.
    elapsed: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    bytes: u64,
    records: u64,
}

impl SharedProgress {
    pub(crate) fn new(counted: Counted, inspector: Inspector) -> Self {
        Self {
            counted,
            has_input: AtomicBool::new(false),
            accepted: Mutex::default(),
            passed: AtomicU64::new(0),
            inspector: Mutex::new(inspector),
        }
    }

    /// Records that an input has been opened.
    pub(crate) fn begin_input(&self) {
        self.has_input.store(true, Ordering::Relaxed);
    }

    /// Returns whether an input has been opened.
    pub(crate) fn has_input(&self) -> bool {
        self.has_input.load(Ordering::Relaxed)
    }

    /// Stores the progress of the present input.
    pub(crate) fn note(&self, progress: &Progress) {
        let mut accepted = lock(&self.accepted);
        accepted.now = Amount {
            bytes: progress.bytes(),
            records: progress.records(),
        };
        accepted.strategy = Some(progress.strategy());
    }

    /// Adds an input that has ended.
    pub(crate) fn end_of_input(&self, bytes: u64, records: u64) {
        let mut accepted = lock(&self.accepted);
        accepted.now = Amount::default();
        accepted.before.bytes += bytes;
        accepted.before.records += records;
    }

    /// Stores the progress and the elapsed time of another process's transfer.
    pub(crate) fn follow(&self, position: Position, elapsed: Duration) {
        self.begin_input();
        let mut accepted = lock(&self.accepted);
        accepted.now = Amount {
            bytes: position.bytes,
            records: position.counted,
        };
        accepted.elapsed = Some(elapsed);
    }

    /// Returns the elapsed time of another process's transfer.
    pub(crate) fn elapsed(&self) -> Option<Duration> {
        lock(&self.accepted).elapsed
    }

    /// Returns the position in the bytes of all inputs.
    pub(crate) fn position(&self) -> Position {
        let (before, now) = {
            let accepted = lock(&self.accepted);
            (accepted.before, accepted.now)
        };
        let bytes = before.bytes + now.bytes;
        Position {
            bytes,
            counted: match self.counted {
                Counted::Bytes => bytes,
                Counted::Records(_) => before.records + now.records,
            },
        }
    }

    /// Returns whether bytes are counted.
    pub(crate) fn counts_bytes(&self) -> bool {
        self.counted == Counted::Bytes
    }

    /// Adds bytes that the output has just accepted.
    pub(crate) fn pass(&self, bytes: usize) {
        self.passed.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the number of bytes that have been added by [`pass`](Self::pass).
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Returns the strategy, after it has moved bytes.
    pub(crate) fn strategy(&self) -> Option<Strategy> {
        lock(&self.accepted).strategy
    }

    /// Returns the inspector of the bytes.
    pub(crate) fn inspector(&self) -> MutexGuard<'_, Inspector> {
        lock(&self.inspector)
    }
}

/// Locks a mutex. Its value is valid even after a panic, because every update is complete.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
