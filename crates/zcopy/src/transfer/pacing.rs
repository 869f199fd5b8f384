//! Limits of a [`Transfer`]'s rate, in bytes per second.

use std::num::NonZeroU64;

use super::Transfer;
use crate::rate::RateLimiter;

#[cfg(doc)]
use crate::{Sparse, Strategy};

impl<'a, Source, Sink> Transfer<'a, Source, Sink> {
    /// Moves at most `bytes_per_second` bytes per second [default: no limit; 0 means 1], in bursts
    /// of at most a tenth of a second's bytes.
    ///
    /// Choose it for a fixed rate of one transfer, and [`rate_limiter`](Self::rate_limiter) for a
    /// rate that several transfers share or that changes. The last call of the two takes effect.
    /// [`record_rate_limit`](Self::record_rate_limit) limits lines per second.
    ///
    /// It rules out [`Strategy::Reflink`], because a clone moves no bytes. Holes that are
    /// [kept](Sparse::Keep) count as bytes and take no time.
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

    /// Limits the rate of this transfer and of all others with the same limiter to a common rate
    /// [default: none].
    ///
    /// Choose it, rather than [`rate_limit`](Self::rate_limit), for many small files that are to
    /// move at the rate of one large one, or for a rate that the observer
    /// [changes](RateLimiter::set_rate) during the transfer. The last call of the two takes effect.
    ///
    /// Bursts, holes and the strategies that it rules out are those of `rate_limit`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use zcopy::{RateLimiter, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let limiter = RateLimiter::new(1_000_000);
    /// let start = Instant::now();
    /// Transfer::new(&zeros, &sink).limit(50_000).rate_limiter(&limiter).run()?;
    /// Transfer::new(&zeros, &sink).limit(50_000).rate_limiter(&limiter).run()?;
    /// assert!(start.elapsed() >= Duration::from_millis(95));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn rate_limiter(mut self, rate_limiter: &'a RateLimiter) -> Self {
        // The plan rules out a clone if there is a rate.
        self.options.rate_limit = NonZeroU64::new(rate_limiter.rate());
        self.rate_limiter = Some(rate_limiter);
        self
    }
}
