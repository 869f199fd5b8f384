//! When to call the observer, and how many bytes the rate limit allows.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::options::Options;
use crate::progress::{Observer, Progress};
use crate::rate::{Account, RateLimiter};
use crate::sys::Kernel;

/// How many calls find and confirm an end.
const MAX_PROBES: u32 = 3;

/// Calls the observer and asks the rate limiter. Reads the clock only for a tick or a rate limit.
pub(crate) struct Pacer<'a> {
    observer: Option<Observer<'a>>,
    tick: Option<Duration>,
    /// When the observer was last called; only kept for ticks.
    observed_at: Duration,
    /// Whether a signal has interrupted a wait since then.
    is_interrupted: bool,
    /// The account at the rate limiter of this transfer alone, or at the caller's.
    account: Option<Account>,
    /// How many more steps may be taken without tokens to find the end of the source, until the
    /// rate limit allows a step.
    probes_left: u32,
    /// Whether bytes have moved without tokens (a prefix, a message, or what such a step found) and
    /// no tokens have been taken since, so that they may not be paid for.
    has_debt_of_its_own: bool,
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
            probes_left: MAX_PROBES,
            has_debt_of_its_own: false,
            account: options
                .rate_limit
                .map(|rate| Account::open(RateLimiter::new(rate.get()), now)),
        }
    }

    /// Uses the caller's rate limiter, if there is one, instead of its own.
    pub(crate) fn share_rate_limiter<K: Kernel>(
        &mut self,
        kernel: &K,
        rate_limiter: Option<RateLimiter>,
    ) {
        if let Some(rate_limiter) = rate_limiter {
            self.account = Some(Account::open(rate_limiter, kernel.now()));
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

    /// Takes up to `wanted` bytes from the rate limit, and returns how many bytes may leave the
    /// source now. Those that have left it and are `in_flight` have been taken before.
    ///
    /// # Errors
    ///
    /// How long to wait, if it allows none.
    pub(crate) fn take<K: Kernel>(
        &mut self,
        kernel: &K,
        wanted: u64,
        in_flight: u64,
    ) -> Result<u64, Duration> {
        let Some(account) = &mut self.account else {
            return Ok(wanted);
        };
        let taken = account.take(kernel.now(), wanted, in_flight);
        if taken.is_ok() {
            self.probes_left = MAX_PROBES;
            self.has_debt_of_its_own = false;
        }
        taken
    }

    /// Returns whether a step of one byte may be taken without tokens, because it is expected to
    /// find the end of the source. None is allowed once bytes have moved without tokens: the end
    /// waits until they are paid for.
    pub(crate) fn allow_probe(&mut self) -> bool {
        let is_allowed = self.probes_left > 0 && !self.has_debt_of_its_own;
        self.probes_left = self.probes_left.saturating_sub(1);
        is_allowed
    }

    /// Pays the rate limiter for `n` bytes that the sink has accepted.
    pub(crate) fn spend(&mut self, n: u64) {
        if let Some(account) = &mut self.account {
            self.has_debt_of_its_own |= n > account.held();
            account.spend(n);
        }
    }

    /// Gives back to the rate limiter what has been taken for bytes that have not left the source.
    pub(crate) fn give_back(&mut self, in_flight: u64) {
        if let Some(account) = &mut self.account {
            self.has_debt_of_its_own |= in_flight > account.held();
            account.give_back(in_flight);
        }
    }
}
