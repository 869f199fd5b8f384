//! A pace that several transfers keep together.

use std::cell::Cell;
use std::time::Duration;

use crate::rate::Bucket;

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
/// use zcopy::{Pace, Transfer};
///
/// let zeros = std::fs::File::open("/dev/zero")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let pace = Pace::new(1_000_000);
/// let start = Instant::now();
/// for _ in 0..100 {
///     Transfer::new(&zeros, &sink).limit(1000).pace(&pace).run()?;
/// }
/// assert!(start.elapsed() >= Duration::from_millis(95));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Pace {
    bucket: Cell<Bucket>,
    /// The bucket is filled from the first transfer on.
    has_begun: Cell<bool>,
}

impl Pace {
    /// A pace of so many bytes per second, at least 1.
    ///
    /// # Examples
    ///
    /// See [`Pace`].
    #[must_use]
    pub fn new(bytes_per_second: u64) -> Self {
        Self {
            bucket: Cell::new(Bucket::new(bytes_per_second, Duration::ZERO)),
            has_begun: Cell::new(false),
        }
    }

    /// The rate, in bytes per second.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(zcopy::Pace::new(1000).rate(), 1000);
    /// ```
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.bucket.get().rate()
    }

    /// Changes the rate, also of a transfer under way: its next step keeps to the new one. The time since its
    /// last step counts at the new rate.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use zcopy::{Pace, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// // It would take a day.
    /// let pace = Pace::new(10);
    /// let report = Transfer::new(&zeros, &sink)
    ///     .limit(1_000_000)
    ///     .pace(&pace)
    ///     .observe(|_| {
    ///         pace.set_rate(100_000_000);
    ///         ControlFlow::Continue(())
    ///     })
    ///     .run()?;
    /// assert_eq!(report.bytes(), 1_000_000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_rate(&self, bytes_per_second: u64) {
        self.with(|bucket| bucket.set_rate(bytes_per_second));
    }

    /// Says that a transfer begins at the time `now`. Before the first one nothing is saved up.
    pub(crate) fn begin(&self, now: Duration) {
        if !self.has_begun.replace(true) {
            self.bucket.set(Bucket::new(self.rate(), now));
        }
    }

    /// As [`Bucket::allow`].
    ///
    /// # Errors
    ///
    /// How long to wait.
    pub(crate) fn allow(&self, now: Duration, wanted: u64) -> Result<u64, Duration> {
        self.with(|bucket| bucket.allow(now, wanted))
    }

    /// As [`Bucket::spend`].
    pub(crate) fn spend(&self, n: u64) {
        self.with(|bucket| bucket.spend(n));
    }

    fn with<T>(&self, change: impl FnOnce(&mut Bucket) -> T) -> T {
        let mut bucket = self.bucket.get();
        let answer = change(&mut bucket);
        self.bucket.set(bucket);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves one file of `len` bytes, with `between` of time after it, and returns the time when that is over.
    fn move_file(pace: &Pace, mut now: Duration, len: u64, between: Duration) -> Duration {
        pace.begin(now);
        let mut left = len;
        while left > 0 {
            match pace.allow(now, u64::MAX) {
                Ok(allowed) => {
                    let n = left.min(allowed);
                    pace.spend(n);
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
            let pace = Pace::new(RATE);
            let n_files = 3_000_000 / len.max(100);
            let mut now = start;
            for _ in 0..n_files {
                now = move_file(&pace, now, len, Duration::from_micros(between));
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
        let pace = Pace::new(1000);
        let now = move_file(&pace, Duration::ZERO, 1000, Duration::from_secs(3600));
        pace.begin(now);
        assert_eq!(pace.allow(now, u64::MAX), Ok(100));
    }

    #[test]
    fn the_time_before_the_first_file_saves_up_nothing() {
        let pace = Pace::new(1000);
        pace.begin(Duration::from_secs(3600));
        let allowed = pace.allow(Duration::from_secs(3600), u64::MAX);
        assert_eq!(allowed, Err(Duration::from_millis(20)));
    }
}
