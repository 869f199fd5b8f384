//! When the observer of a transfer is due, and when its rate allows more.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::options::Options;
use crate::progress::{Observer, Progress};
use crate::rate::RateLimiter;
use crate::sys::Kernel;

/// Calls the observer, and asks the rate limiter.
///
/// It asks for the time only where a tick or a rate limit needs it.
pub(crate) struct Pacer<'a> {
    observer: Option<Observer<'a>>,
    tick: Option<Duration>,
    /// When the observer was last called; kept for the tick alone.
    observed_at: Duration,
    /// Whether a signal has interrupted a wait since then.
    is_interrupted: bool,
    rate_limiter: Option<Limiter<'a>>,
}

/// Whose rate limit is kept.
enum Limiter<'a> {
    Own(RateLimiter),
    Shared(&'a RateLimiter),
}

impl<'a> Pacer<'a> {
    /// A pacer that starts now.
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

    /// Has it keep the caller's rate limit, if there is one, rather than one of its own.
    pub(crate) fn keep<K: Kernel>(&mut self, kernel: &K, rate_limiter: Option<&'a RateLimiter>) {
        if let Some(rate_limiter) = rate_limiter {
            rate_limiter.begin(kernel.now());
            self.rate_limiter = Some(Limiter::Shared(rate_limiter));
        }
    }

    fn rate_limiter(&self) -> Option<&RateLimiter> {
        self.rate_limiter
            .as_ref()
            .map(|rate_limiter| match rate_limiter {
                Limiter::Own(rate_limiter) => rate_limiter,
                Limiter::Shared(rate_limiter) => rate_limiter,
            })
    }

    /// Whether somebody wants to be told the time while nothing moves, so that no call may sleep.
    pub(crate) fn ticks(&self) -> bool {
        self.tick.is_some()
    }

    /// The time left until the observer is due; zero if it is.
    pub(crate) fn until_tick<K: Kernel>(&self, kernel: &K) -> Option<Duration> {
        let tick = self.tick?;
        let since = kernel.now().saturating_sub(self.observed_at);
        Some(tick.saturating_sub(since))
    }

    /// Has the observer called when this wait has ended, which a signal has interrupted: its handler may have told the
    /// observer something.
    pub(crate) fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// Shows the observer how far the transfer has come.
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

    /// The same, if it is due.
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

    /// How many of the `wanted` bytes the rate allows now.
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

    /// Notes that `n` bytes were moved.
    pub(crate) fn spend(&self, n: u64) {
        if let Some(rate_limiter) = self.rate_limiter() {
            rate_limiter.spend(n);
        }
    }
}
