//! What a [`Transfer`] can be told about its rate.

use std::num::NonZeroU64;

use super::Transfer;
use crate::rate::RateLimiter;

#[cfg(doc)]
use crate::Sparse;

impl<'a> Transfer<'a> {
    /// Moves at most this many bytes per second, with bursts of at most a tenth of a second's
    /// worth. 0 is taken for 1.
    ///
    /// The short form of a [`rate_limiter`](Self::rate_limiter) that is this transfer's own. The later of the two counts.
    ///
    /// Holes that are [kept](Sparse::Keep) count as bytes and take no time, as nothing moves.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use zcopy::Transfer;
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let start = Instant::now();
    /// Transfer::new(&zeros, &sink).limit(100_000).rate_limit(1_000_000).run()?;
    /// assert!(start.elapsed() >= Duration::from_millis(95));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn rate_limit(mut self, bytes_per_second: u64) -> Self {
        self.options.rate_limit = NonZeroU64::new(bytes_per_second.max(1));
        self.rate_limiter = None;
        self
    }

    /// Shares a rate limiter with all other transfers that are given it. The later of this and
    /// [`rate_limit`](Self::rate_limit) counts.
    ///
    /// Bursts and holes are as there. Its rate can be [changed](RateLimiter::set_rate) meanwhile, by the observer for
    /// one.
    ///
    /// # Examples
    ///
    /// See [`RateLimiter`].
    pub fn rate_limiter(mut self, rate_limiter: &'a RateLimiter) -> Self {
        // So that the plan knows of a rate, and clones nothing.
        self.options.rate_limit = NonZeroU64::new(rate_limiter.rate());
        self.rate_limiter = Some(rate_limiter);
        self
    }
}
