//! A rate limit that several transfers share.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

mod token_bucket;

pub(crate) use token_bucket::TokenBucket;

/// A rate limit in bytes per second that several transfers share: one after another, or one inside
/// the observer of another.
///
/// With it, many small files are moved at the same rate as a large one: a transfer may use what the
/// one before has left of its allowance, and the time between transfers counts. After a pause of
/// any length at most a tenth of a second's worth is saved up. For a single transfer,
/// [`Transfer::rate_limit`](crate::Transfer::rate_limit) is enough.
///
/// Transfers in several threads can use it by reference.
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
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    tokens: TokenBucket,
    /// Whether a transfer has begun. The bucket fills from then on.
    has_begun: bool,
}

impl RateLimiter {
    /// Creates a rate limiter of this many bytes per second, at least 1. It allows nothing in
    /// advance: its time begins with the first transfer that uses it.
    #[must_use]
    pub fn new(bytes_per_second: u64) -> Self {
        Self {
            bucket: Mutex::new(Bucket {
                tokens: TokenBucket::new(bytes_per_second, Duration::ZERO),
                has_begun: false,
            }),
        }
    }

    /// Returns the rate in bytes per second.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(zcopy::RateLimiter::new(1000).rate(), 1000);
    /// ```
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.with(|bucket| bucket.tokens.rate())
    }

    /// Changes the rate to this many bytes per second, at least 1. A running transfer uses the new
    /// rate from its next step on, also for the time that has passed since its last step.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use zcopy::{RateLimiter, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// // At this rate the transfer would take a day.
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
        self.with(|bucket| bucket.tokens.set_rate(bytes_per_second));
    }

    /// Starts to fill the bucket at the time `now`, unless an earlier transfer has started it.
    pub(crate) fn begin(&self, now: Duration) {
        self.with(|bucket| {
            if !std::mem::replace(&mut bucket.has_begun, true) {
                bucket.tokens = TokenBucket::new(bucket.tokens.rate(), now);
            }
        });
    }

    /// Returns how many bytes may be moved at the time `now`: see [`TokenBucket::allow`].
    ///
    /// # Errors
    ///
    /// Returns how long to wait.
    pub(crate) fn allow(&self, now: Duration, wanted: u64) -> Result<u64, Duration> {
        self.with(|bucket| bucket.tokens.allow(now, wanted))
    }

    /// Removes `n` bytes from the bucket: see [`TokenBucket::spend`].
    pub(crate) fn spend(&self, n: u64) {
        self.with(|bucket| bucket.tokens.spend(n));
    }

    fn with<T>(&self, change: impl FnOnce(&mut Bucket) -> T) -> T {
        // No change of the bucket has a state between two that a panic could leave behind: each is
        // a few assignments of numbers, so that the bucket of a poisoned lock is a valid one.
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves one file of `len` bytes and returns the time at its end plus `between`.
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
        // Each transfer takes some time to begin and to end; together they still keep the rate.
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
