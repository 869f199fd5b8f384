//! What another process may change of a running transfer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use zcopy::RateLimiter;

/// What another process may change of a running transfer.
///
/// A transfer that already has a limiter gets a new rate at once. Any other change restarts it: its observer finds
/// [`is_changed`](Self::is_changed), and the next transfer goes on where it has stopped.
#[derive(Debug)]
pub(in crate::pv) struct Control {
    is_changed: AtomicBool,
    wanted: Mutex<Wanted>,
}

#[derive(Debug)]
struct Wanted {
    limiter: Option<RateLimiter>,
    size: Option<u64>,
}

impl Control {
    /// Returns the control of a transfer with this rate limit.
    pub(in crate::pv) fn new(rate_limit: Option<u64>) -> Self {
        Self {
            is_changed: AtomicBool::new(false),
            wanted: Mutex::new(Wanted {
                limiter: rate_limit.map(RateLimiter::new),
                size: None,
            }),
        }
    }

    /// Whether the transfer has to be restarted. An observer asks this at every step.
    pub(in crate::pv) fn is_changed(&self) -> bool {
        self.is_changed.load(Ordering::Relaxed)
    }

    /// Says that a new transfer is about to use what is wanted now. Returns whether a change was wanted since the last
    /// call.
    pub(in crate::pv) fn take_change(&self) -> bool {
        self.is_changed.swap(false, Ordering::Relaxed)
    }

    /// Has the transfer restarted.
    pub(in crate::pv) fn restart(&self) {
        self.is_changed.store(true, Ordering::Relaxed);
    }

    /// The limiter that a new transfer uses.
    pub(in crate::pv) fn limiter(&self) -> Option<RateLimiter> {
        self.lock().limiter.clone()
    }

    /// The size that replaces the one of the command line.
    pub(in crate::pv) fn size(&self) -> Option<u64> {
        self.lock().size
    }

    /// Changes the rate limit; 0 takes it off.
    pub(in crate::pv) fn set_rate(&self, per_second: u64) {
        let mut wanted = self.lock();
        match (&wanted.limiter, per_second) {
            (None, 0) => {}
            (Some(limiter), 0) => {
                // A transfer that sleeps because of the old rate wakes up to be restarted.
                limiter.set_rate(u64::MAX);
                wanted.limiter = None;
                self.restart();
            }
            (Some(limiter), rate) => limiter.set_rate(rate),
            (None, rate) => {
                wanted.limiter = Some(RateLimiter::new(rate));
                self.restart();
            }
        }
    }

    /// Changes how much there is to move, and with `-S` also where the transfer stops.
    pub(in crate::pv) fn set_size(&self, size: u64, stops_at_size: bool) {
        self.lock().size = Some(size);
        if stops_at_size {
            self.restart();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limiter_in_use_is_changed_in_place_and_any_other_change_restarts() {
        let control = Control::new(None);
        control.set_rate(0);
        assert!(!control.is_changed());
        control.set_rate(10);
        assert!(control.take_change() && !control.is_changed());
        let limiter = control.limiter();
        control.set_rate(20);
        assert!(!control.is_changed());
        assert_eq!(limiter.as_ref().map(RateLimiter::rate), Some(20));
        control.set_rate(0);
        assert!(control.take_change());
        assert!(control.limiter().is_none());
        assert_eq!(limiter.map(|limiter| limiter.rate()), Some(u64::MAX));
    }

    #[test]
    fn a_size_restarts_only_a_transfer_that_stops_there() {
        let control = Control::new(None);
        control.set_size(10, false);
        assert!(!control.is_changed());
        control.set_size(20, true);
        assert!(control.take_change());
        assert_eq!(control.size(), Some(20));
    }
}
