//! A rate limit that several transfers share.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

mod account;
mod token_bucket;
mod users;

pub(crate) use account::Account;
use token_bucket::TokenBucket;

/// The longest time that a transfer sleeps before it looks at a rate that others can change.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// A limit of the bytes (or records) per second that several transfers move together, in one thread
/// or in many. It can be changed while they run.
///
/// Clones share one limit, as those of an [`Arc`] share one value. Choose it as the one cap of a
/// server, for many small files that are to move at the rate of one large one, or for a rate that
/// changes. For a fixed rate of a single transfer, pass a number to [`Transfer::rate_limit`].
///
/// The time between transfers counts: after a pause of any length, all transfers together move at
/// most the bytes of a tenth of a second at once. Bytes in flight at stalled sinks are paid for,
/// and so are those that a transfer [from a reader](crate::Transfer::from_reader) may read while it
/// sleeps in `read`. They come on top of that: at most one more such burst, or a share of at least
/// 1024 bytes for each of these transfers if that is more. A message, a record or a datagram moves
/// whole and may exceed the rate by itself; the next bytes wait for that much longer.
///
/// Transfers that the limit delays take turns, in the order in which they asked. A turn is at most
/// the bytes of a fiftieth of a second; with many transfers, it is an equal part of the bytes of a
/// tenth of a second, but at least 1024 bytes or a fiftieth of a second's worth, whichever is less.
/// So transfers that use their turns get equal parts of the rate. One whose steps are shorter (its
/// messages are short) gets less, and one whose messages are longer than its turn gets more: it
/// lets others have its next turns only as far as they come for them in time. One that does not
/// come back for its turn (a [`Session`] whose caller takes no step) delays no other.
///
/// A limiter counts either bytes ([`Transfer::rate_limit`]) or records
/// ([`Transfer::record_rate_limit`]): use two for both.
///
/// # Examples
///
/// Three threads of a server, which together send as many bytes as the cap allows in a tenth of a
/// second:
///
/// ```
/// use std::fs::File;
/// use std::time::{Duration, Instant};
/// use zcopy::{RateLimiter, Transfer};
///
/// let rate_limiter = RateLimiter::new(3_000_000);
/// let start = Instant::now();
/// let connections = [(); 3].map(|()| {
///     let rate_limiter = rate_limiter.clone();
///     std::thread::spawn(move || {
///         let (file, peer) = (File::open("/dev/zero")?, File::create("/dev/null")?);
///         let transfer = Transfer::new(file, peer).limit(100_000).rate_limit(rate_limiter);
///         transfer.run().map_err(std::io::Error::from)
///     })
/// });
/// for connection in connections {
///     let report = connection.join().expect("the thread does not panic")?;
///     assert_eq!(report.bytes(), 100_000);
/// }
/// assert!(start.elapsed() >= Duration::from_millis(95));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// [`Session`]: crate::Session
/// [`Transfer::rate_limit`]: crate::Transfer::rate_limit
/// [`Transfer::record_rate_limit`]: crate::Transfer::record_rate_limit
#[derive(Clone, Debug)]
pub struct RateLimiter {
    bucket: Arc<Mutex<Bucket>>,
}

/// The state that the clones of a limiter share.
#[derive(Debug)]
struct Bucket {
    tokens: TokenBucket,
    /// Whether a transfer has begun. The bucket fills from then on.
    has_begun: bool,
    /// How many transfers use the limiter.
    n_accounts: u64,
    /// The units that all transfers have paid for.
    #[cfg(test)]
    spent: u64,
}

impl RateLimiter {
    /// Creates a rate limiter of this many bytes (or records) per second, at least 1. It allows
    /// nothing in advance: its time begins with the first transfer that uses it.
    #[must_use]
    pub fn new(per_second: u64) -> Self {
        let bucket = Bucket {
            tokens: TokenBucket::new(per_second, Duration::ZERO),
            has_begun: false,
            n_accounts: 0,
            #[cfg(test)]
            spent: 0,
        };
        Self {
            bucket: Arc::new(Mutex::new(bucket)),
        }
    }

    /// Returns the rate in bytes (or records) per second.
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

    /// Changes the rate to this many bytes (or records) per second, at least 1. Any thread may
    /// call it, and an observer.
    ///
    /// Running transfers use the new rate from their next steps on, also for the time that has
    /// passed since the last step of any of them. A transfer that sleeps because of the old rate
    /// wakes within 100 ms. (One that runs by [`Session::step`](crate::Session::step) returns a
    /// [time-out](crate::Interest::timeout) of at most 100 ms.)
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{RateLimiter, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// // At this rate the transfer would take a day.
    /// let rate_limiter = RateLimiter::new(10);
    /// let transfer = Transfer::new(zeros, sink).limit(1_000_000).rate_limit(&rate_limiter);
    /// let copying = std::thread::spawn(|| transfer.run());
    /// rate_limiter.set_rate(100_000_000);
    /// let report = copying.join().expect("the thread does not panic")?;
    /// assert_eq!(report.bytes(), 1_000_000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_rate(&self, per_second: u64) {
        self.with(|bucket| bucket.tokens.set_rate(per_second));
    }

    /// Bounds the time that a transfer sleeps before it asks again, if somebody else has a clone
    /// and may change the rate or cancel a reservation meanwhile. The other direction of a relay
    /// has one, too.
    fn bound_wait(&self, wait: Duration) -> Duration {
        if Arc::strong_count(&self.bucket) > 1 {
            wait.min(MAX_WAIT)
        } else {
            wait
        }
    }

    /// Returns the units that all transfers have paid for, and asserts that none of them is left
    /// and that all has come back which they took and did not pay for.
    #[cfg(test)]
    pub(crate) fn spent_in_all(&self) -> u64 {
        self.with(|bucket| {
            assert_eq!((bucket.n_accounts, bucket.tokens.n_held()), (0, 0));
            bucket.spent
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut Bucket) -> T) -> T {
        // No change panics between two assignments. So after a panic elsewhere, the others can go
        // on with the bucket.
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut bucket)
    }
}

/// Creates a limiter of this many bytes (or records) per second, as [`RateLimiter::new`] does.
impl From<u64> for RateLimiter {
    fn from(per_second: u64) -> Self {
        Self::new(per_second)
    }
}

/// Clones the limiter: both are one limit.
impl From<&RateLimiter> for RateLimiter {
    fn from(rate_limiter: &RateLimiter) -> Self {
        rate_limiter.clone()
    }
}

impl Bucket {
    /// Starts to fill the bucket at the time `now`, unless an earlier transfer has started it.
    fn begin(&mut self, now: Duration) {
        if !self.has_begun {
            self.has_begun = true;
            self.tokens = TokenBucket::new(self.tokens.rate(), now);
        }
    }
}

#[cfg(test)]
mod tests;
