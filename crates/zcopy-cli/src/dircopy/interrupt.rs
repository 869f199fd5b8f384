//! The signals that end a run early.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::common::sys::{self, FirstSignal};

/// The signals after which a run writes its manifest and its summary before it ends.
const SIGNALS: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// Tells whether a signal asked the run to end.
///
/// The first signal sets a flag, and the run then starts nothing new. One that follows after 100 ms
/// or more ends the process at once, and the journal keeps the digests.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    is_requested: Arc<AtomicBool>,
    /// 0, or the first signal.
    signal: Arc<AtomicUsize>,
    first: Arc<FirstSignal>,
    catching: Arc<Once>,
}

/// The error of an entry that was not copied because of a signal.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

impl Default for Interrupt {
    fn default() -> Self {
        Self {
            is_requested: Arc::default(),
            signal: Arc::default(),
            first: Arc::default(),
            catching: Arc::new(Once::new()),
        }
    }
}

impl Interrupt {
    /// Catches the signals from now on, except for those that this process was started to ignore.
    /// A further call does nothing: caught twice, the first signal would kill.
    pub(crate) fn catch_signals(&self) {
        self.catching.call_once(|| {
            for signal in SIGNALS {
                if !sys::is_ignored(signal) {
                    // A signal that cannot be caught kills, as it does without this.
                    let _ = self.register(signal);
                }
            }
        });
    }

    fn register(&self, signal: i32) -> std::io::Result<()> {
        sys::end_on_second(signal, &self.first)?;
        // Signal numbers are small and positive.
        flag::register_usize(
            signal,
            Arc::clone(&self.signal),
            signal.unsigned_abs() as usize,
        )?;
        flag::register(signal, Arc::clone(&self.is_requested))?;
        Ok(())
    }

    /// The flag that a signal sets.
    pub(crate) fn flag(&self) -> &Arc<AtomicBool> {
        &self.is_requested
    }

    /// Whether a signal has asked the run to end.
    pub(crate) fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::Relaxed)
    }

    /// Fails with [`Interrupted`] after a signal.
    pub(crate) fn check(&self) -> Result<(), Interrupted> {
        if self.is_requested() {
            Err(Interrupted)
        } else {
            Ok(())
        }
    }

    /// The signal that asked the run to end.
    pub(crate) fn signal(&self) -> Option<i32> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }
}

/// The name of a signal.
pub(crate) fn name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("a signal")
}
