//! When to call the observer, and how many bytes the rate limit allows.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::options::Options;
use crate::progress::{Observer, Progress};
use crate::rate::RateLimiter;
use crate::sys::Kernel;

/// Calls the observer and asks the rate limiter. Reads the clock only for a tick or a rate limit.
pub(crate) struct Pacer<'a> {
    observer: Option<Observer<'a>>,
    tick: Option<Duration>,
    /// When the observer was last called; only kept for ticks.
    observed_at: Duration,
    /// Whether a signal has interrupted a wait since then.
    is_interrupted: bool,
    rate_limiter: Option<Limiter<'a>>,
}

/// The rate limiter: of this transfer alone, or the caller's.
enum Limiter<'a> {
    Own(RateLimiter),
    Shared(&'a RateLimiter),
}

impl<'a> Pacer<'a> {
    /// Returns a pacer that starts now.
    pub(crate) fn new<K: Kernel>(
        kernel: &K,
        options: &Options,
        observer: Option<Observer<'a>>,
    ) -> Self {
        let is_needed = options.rate_limit.is_some() || options.tick.is_some();
        let now = if is_needed {
            kernel.now()
        } else {
            Duration::ZERO
        };
        Self {
            observer,
            tick: options.tick,
            observed_at: now,
            is_interrupted: false,
            rate_limiter: options.rate_limit.map(|rate| {
                let rate_limiter = RateLimiter::new(rate.get());
                rate_limiter.begin(now);
                Limiter::Own(rate_limiter)
            }),
        }
    }

    /// Uses the caller's rate limiter, if there is one, instead of its own.
    pub(crate) fn share_rate_limiter<K: Kernel>(
        &mut self,
        kernel: &K,
        rate_limiter: Option<&'a RateLimiter>,
    ) {
        if let Some(rate_limiter) = rate_limiter {
            rate_limiter.begin(kernel.now());
            self.rate_limiter = Some(Limiter::Shared(rate_limiter));
        }
    }

    fn rate_limiter(&self) -> Option<&RateLimiter> {
        match self.rate_limiter.as_ref()? {
            Limiter::Own(rate_limiter) => Some(rate_limiter),
            Limiter::Shared(rate_limiter) => Some(rate_limiter),
        }
    }

    /// Returns whether [`observe`](Self::observe) has an effect.
    #[inline]
    pub(crate) fn observes(&self) -> bool {
        self.observer.is_some() || self.ticks()
    }

    /// Returns whether the observer is also called while nothing moves, so that no call may sleep.
    pub(crate) fn ticks(&self) -> bool {
        self.tick.is_some()
    }

    /// Returns the time until the next tick; zero if it is due.
    pub(crate) fn until_tick<K: Kernel>(&self, kernel: &K) -> Option<Duration> {
        let tick = self.tick?;
        let since = kernel.now().saturating_sub(self.observed_at);
        Some(tick.saturating_sub(since))
    }

    /// Makes the observer due: a signal interrupted the wait, and its handler may have set
    /// something that the observer reads.
    pub(crate) fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// Calls the observer.
    pub(crate) fn observe<K: Kernel>(
        &mut self,
        kernel: &K,
        progress: &Progress,
    ) -> ControlFlow<()> {
        self.is_interrupted = false;
        if self.ticks() {
            self.observed_at = kernel.now();
        }
        match &mut self.observer {
            Some(observer) => observer(progress),
            None => ControlFlow::Continue(()),
        }
    }

    /// Calls the observer if a tick is due or a signal came.
    pub(crate) fn observe_if_due<K: Kernel>(
        &mut self,
        kernel: &K,
        progress: &Progress,
    ) -> ControlFlow<()> {
        let is_tick = |left: Duration| left.is_zero();
        if self.is_interrupted || self.until_tick(kernel).is_some_and(is_tick) {
            return self.observe(kernel, progress);
        }
        ControlFlow::Continue(())
    }

    /// Returns how many of the `wanted` bytes the rate limit allows now.
    ///
    /// # Errors
    ///
    /// How long to wait, if it allows none.
    pub(crate) fn allow<K: Kernel>(&self, kernel: &K, wanted: u64) -> Result<u64, Duration> {
        match self.rate_limiter() {
            Some(rate_limiter) => Ok(wanted.min(rate_limiter.allow(kernel.now(), wanted)?)),
            None => Ok(wanted),
        }
    }

    /// Charges `n` bytes to the rate limiter.
    pub(crate) fn spend(&self, n: u64) {
        if let Some(rate_limiter) = self.rate_limiter() {
            rate_limiter.spend(n);
        }
    }
}
