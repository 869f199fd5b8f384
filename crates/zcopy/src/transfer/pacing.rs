//! Limits of a [`Transfer`]'s rate, in bytes per second.

use std::num::NonZeroU64;

use super::Transfer;
use crate::rate::RateLimiter;

#[cfg(doc)]
use crate::{Sparse, Strategy};

impl<Source, Sink> Transfer<'_, Source, Sink> {
    /// Moves at most this many bytes per second [default: no limit; 0 means 1], in bursts of at
    /// most a tenth of a second's bytes. A number limits this transfer alone. A [`RateLimiter`],
    /// by value or by reference, limits all transfers that share it, and can be
    /// [changed](RateLimiter::set_rate) while they run.
    ///
    /// Choose it for a steady load, or to leave a part of a line or disk to others.
    /// [`record_rate_limit`](Self::record_rate_limit) limits lines per second. The last call takes
    /// effect.
    ///
    /// It rules out [`Strategy::Reflink`], because a clone moves no bytes. Holes that are
    /// [kept](Sparse::Keep) count as bytes and take no time.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use zcopy::{RateLimiter, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let start = Instant::now();
    /// Transfer::new(&zeros, &sink).limit(100_000).rate_limit(1_000_000).run()?;
    /// assert!(start.elapsed() >= Duration::from_millis(95));
    ///
    /// let rate_limiter = RateLimiter::new(1_000_000);
    /// let start = Instant::now();
    /// for _ in 0..100 {
    ///     Transfer::new(&zeros, &sink).limit(1000).rate_limit(&rate_limiter).run()?;
    /// }
    /// assert!(start.elapsed() >= Duration::from_millis(95));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn rate_limit(mut self, limit: impl Into<RateLimiter>) -> Self {
        let rate_limiter = limit.into();
        // The plan rules out a clone if there is a rate, whatever it is.
        self.settings.options.rate_limit = NonZeroU64::new(rate_limiter.rate());
        self.settings.rate_limiter = Some(rate_limiter);
        self
    }
}
