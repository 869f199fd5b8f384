//! The settings of a running transfer that another process may change.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zcopy::RateLimiter;

/// The time in which as many bytes or lines move as a rate has thousandths.
const THOUSAND_SECONDS: Duration = Duration::from_secs(1000);

/// The settings of a running transfer that another process may change.
///
/// A transfer with a limiter gets a new rate at once. Any other change restarts the transfer: its
/// observer sees [`is_changed`](Self::is_changed), and the next transfer continues where it
/// stopped.
#[derive(Debug)]
pub(crate) struct Control {
    is_changed: AtomicBool,
    wanted: Mutex<Wanted>,
}

#[derive(Debug)]
struct Wanted {
    limiter: Option<RateLimiter>,
    size: Option<u64>,
}

impl Control {
    /// Creates the control of a transfer with this rate limit, in thousandths of a byte or line per
    /// second.
    pub(crate) fn new(rate_limit: Option<u64>) -> Self {
        Self {
            is_changed: AtomicBool::new(false),
            wanted: Mutex::new(Wanted {
                limiter: rate_limit.map(|rate| RateLimiter::per(rate, THOUSAND_SECONDS)),
                size: None,
            }),
        }
    }

    /// Returns whether the transfer has to be restarted. The observer calls this at every step.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed.load(Ordering::Relaxed)
    }

    /// Clears the request of a restart, because a new transfer is about to use the present
    /// settings. Returns whether there was one.
    pub(crate) fn take_change(&self) -> bool {
        self.is_changed.swap(false, Ordering::Relaxed)
    }

    /// Requests a restart of the transfer.
    pub(crate) fn restart(&self) {
        self.is_changed.store(true, Ordering::Relaxed);
    }

    /// Returns the limiter for a new transfer.
    pub(crate) fn limiter(&self) -> Option<RateLimiter> {
        self.lock().limiter.clone()
    }

    /// Returns the size that replaces that of the command line.
    pub(crate) fn size(&self) -> Option<u64> {
        self.lock().size
    }

    /// Changes the rate limit, in thousandths of a byte or line per second. 0 removes it.
    pub(crate) fn set_rate(&self, thousandths: u64) {
        let mut wanted = self.lock();
        match (&wanted.limiter, thousandths) {
            (None, 0) => {}
            (Some(limiter), 0) => {
                // This wakes a transfer that sleeps because of the old rate, so that it restarts.
                limiter.set_rate(u64::MAX);
                wanted.limiter = None;
                self.restart();
            }
            (Some(limiter), rate) => limiter.set_rate_per(rate, THOUSAND_SECONDS),
            (None, rate) => {
                wanted.limiter = Some(RateLimiter::per(rate, THOUSAND_SECONDS));
                self.restart();
            }
        }
    }

    /// Changes the total size, and with `-S` also the size at which the transfer stops.
    pub(crate) fn set_size(&self, size: u64, stops_at_size: bool) {
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
        control.set_rate(10_000);
        assert!(control.take_change() && !control.is_changed());
        let limiter = control.limiter();
        control.set_rate(20_000);
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
