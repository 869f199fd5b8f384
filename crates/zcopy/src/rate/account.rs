//! The tokens that one transfer has taken from a rate limiter.

use std::time::Duration;

use super::RateLimiter;
use super::token_bucket::Held;

/// The account of one transfer at a rate limiter. Dropping it gives back what has not been spent.
#[derive(Debug)]
pub(crate) struct Account {
    rate_limiter: RateLimiter,
    held: Held,
}

impl Account {
    /// Opens an account at the time `now`. The rate limiter begins to earn with its first account.
    pub(crate) fn open(rate_limiter: RateLimiter, now: Duration) -> Self {
        let mut held = Held::default();
        rate_limiter.with(|bucket| {
            bucket.begin(now);
            bucket.n_accounts += 1;
            bucket.tokens.open(&mut held, now);
        });
        Self { rate_limiter, held }
    }

    /// Takes up to `wanted` units at the time `now`, and returns how many units may leave the
    /// source: see [`TokenBucket::take`](super::token_bucket::TokenBucket::take).
    ///
    /// # Errors
    ///
    /// Returns how long to wait before the next call.
    pub(crate) fn take(
        &mut self,
        now: Duration,
        wanted: u64,
        in_flight: u64,
    ) -> Result<u64, Duration> {
        let held = &mut self.held;
        let taken = self.rate_limiter.with(|bucket| {
            let n_accounts = bucket.n_accounts;
            let tokens = &mut bucket.tokens;
            tokens.take(held, now, wanted, in_flight, n_accounts)
        });
        taken.map_err(|wait| self.rate_limiter.bound_wait(wait))
    }

    /// Pays for `n` units that the sink has accepted.
    pub(crate) fn spend(&mut self, n: u64) {
        let held = &mut self.held;
        self.rate_limiter.with(|bucket| {
            bucket.tokens.spend(held, n);
            #[cfg(test)]
            {
                bucket.spent += n;
            }
        });
    }

    /// Gives back what has been taken, but for `in_flight` units that have left the source and that
    /// the sink has not accepted.
    pub(crate) fn give_back(&mut self, in_flight: u64) {
        if self.held.tokens() != in_flight {
            let held = &mut self.held;
            self.rate_limiter
                .with(|bucket| bucket.tokens.give_back(held, in_flight));
        }
    }

    /// Returns how many units have been taken and not been spent.
    pub(crate) fn held(&self) -> u64 {
        self.held.tokens()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let held = &mut self.held;
        self.rate_limiter.with(|bucket| {
            bucket.tokens.close(held);
            bucket.n_accounts -= 1;
        });
    }
}
