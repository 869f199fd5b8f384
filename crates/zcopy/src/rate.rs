//! A rate limiter that several transfers keep together.

use std::cell::Cell;
use std::time::Duration;

mod token_bucket;

pub(crate) use token_bucket::TokenBucket;

/// A rate in bytes per second, kept by all the transfers that are given it: one after another, or one
/// inside the observer of another.
///
/// So many small files can be moved at one rate, as one large one would be: what one of them leaves
/// of its allowance the next may use, and the time between them counts. After a pause of any length
/// no more than a tenth of a second's worth has been saved up.
///
/// It has no locks and stays in its thread, as a [`Transfer`](crate::Transfer) does.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
/// use zcopy::{RateLimiter, Transfer};
///
/// let zeros = std::fs::File::open("/dev/zero")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let rate_limiter = RateLimiter::new(1_000_000);
/// let start = Instant::now();
/// for _ in 0..100 {
///     Transfer::new(&zeros, &sink).limit(1000).rate_limiter(&rate_limiter).run()?;
/// }
/// assert!(start.elapsed() >= Duration::from_millis(95));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct RateLimiter {
    token_bucket: Cell<TokenBucket>,
    /// The bucket is filled from the first transfer on.
    has_begun: Cell<bool>,
}

impl RateLimiter {
    /// A rate limiter of so many bytes per second, at least 1.
    ///
    /// # Examples
    ///
    /// See [`RateLimiter`].
    #[must_use]
    pub fn new(bytes_per_second: u64) -> Self {
        Self {
            token_bucket: Cell::new(TokenBucket::new(bytes_per_second, Duration::ZERO)),
            has_begun: Cell::new(false),
        }
    }

    /// The rate, in bytes per second.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(zcopy::RateLimiter::new(1000).rate(), 1000);
    /// ```
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.token_bucket.get().rate()
    }

    /// Changes the rate, also of a transfer under way: its next step keeps to the new one. The time since its
    /// last step counts at the new rate.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use zcopy::{RateLimiter, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// // It would take a day.
    /// let rate_limiter = RateLimiter::new(10);
    /// let report = Transfer::new(&zeros, &sink)
    ///     .limit(1_000_000)
    ///     .rate_limiter(&rate_limiter)
    ///     .observe(|_| {
    ///         rate_limiter.set_rate(100_000_000);
    ///         ControlFlow::Continue(())
    ///     })
    ///     .run()?;
    /// assert_eq!(report.bytes(), 1_000_000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_rate(&self, bytes_per_second: u64) {
        self.with(|token_bucket| token_bucket.set_rate(bytes_per_second));
    }

    /// Says that a transfer begins at the time `now`. Before the first one nothing is saved up.
    pub(crate) fn begin(&self, now: Duration) {
        if !self.has_begun.replace(true) {
            self.token_bucket.set(TokenBucket::new(self.rate(), now));
        }
    }

    /// As [`TokenBucket::allow`].
    ///
    /// # Errors
    ///
    /// How long to wait.
    pub(crate) fn allow(&self, now: Duration, wanted: u64) -> Result<u64, Duration> {
        self.with(|token_bucket| token_bucket.allow(now, wanted))
    }

    /// As [`TokenBucket::spend`].
    pub(crate) fn spend(&self, n: u64) {
        self.with(|token_bucket| token_bucket.spend(n));
    }

    fn with<T>(&self, change: impl FnOnce(&mut TokenBucket) -> T) -> T {
        let mut token_bucket = self.token_bucket.get();
        let answer = change(&mut token_bucket);
        self.token_bucket.set(token_bucket);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves one file of `len` bytes, with `between` of time after it, and returns the time when that is over.
    fn move_file(
        rate_limiter: &RateLimiter,
        mut now: Duration,
        len: u64,
        between: Duration,
    ) -> Duration {
        rate_limiter.begin(now);
        let mut left = len;
        while left > 0 {
            match rate_limiter.allow(now, u64::MAX) {
                Ok(allowed) => {
                    let n = left.min(allowed);
                    rate_limiter.spend(n);
                    left -= n;
                }
                Err(wait) => now += wait,
            }
        }
        now + between
    }

    #[test]
    fn files_one_after_another_keep_one_rate_and_the_time_between_them_counts() {
        const RATE: u64 = 1_000_000;
        let start = Duration::from_secs(5000);
        // Every transfer takes some time to begin and to end; together they still move at the rate.
        for (len, between) in [(1, 0), (700, 300), (30_000, 20_000), (250_000, 50_000)] {
            let rate_limiter = RateLimiter::new(RATE);
            let n_files = 3_000_000 / len.max(100);
            let mut now = start;
            for _ in 0..n_files {
                now = move_file(&rate_limiter, now, len, Duration::from_micros(between));
            }
            let passed = now.saturating_sub(start);
            let ideal = Duration::from_micros(n_files * len);
            // One quantum is a fiftieth of a second.
            assert!(
                passed.abs_diff(ideal) < Duration::from_millis(80),
                "files of {len}: {passed:?} for {ideal:?}"
            );
        }
    }

    #[test]
    fn a_long_time_between_two_files_saves_up_no_more_than_a_burst() {
        let rate_limiter = RateLimiter::new(1000);
        let now = move_file(
            &rate_limiter,
            Duration::ZERO,
            1000,
            Duration::from_secs(3600),
        );
        rate_limiter.begin(now);
        assert_eq!(rate_limiter.allow(now, u64::MAX), Ok(100));
    }

    #[test]
    fn the_time_before_the_first_file_saves_up_nothing() {
        let rate_limiter = RateLimiter::new(1000);
        rate_limiter.begin(Duration::from_secs(3600));
        let allowed = rate_limiter.allow(Duration::from_secs(3600), u64::MAX);
        assert_eq!(allowed, Err(Duration::from_millis(20)));
    }
}
