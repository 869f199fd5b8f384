//! A rate limit that several transfers share.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

mod account;
mod token_bucket;
mod users;

pub(crate) use account::Account;
use token_bucket::{NanoRate, TokenBucket};

/// The longest time that a transfer sleeps before it looks at a rate that others can change.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// A limit of the bytes (or records) per second that several transfers move together, in one thread
/// or in many. It can be changed while they run.
///
/// Clones share one limit, as those of an [`Arc`] share one value. Choose it as the one cap of a
/// server, for many small files that are to move at the rate of one large one, or for a rate that
/// changes. For a fixed rate of a single transfer, pass a number to [`Transfer::rate_limit`].
///
/// A limiter counts either bytes ([`Transfer::rate_limit`]) or records
/// ([`Transfer::record_rate_limit`]): use two for both.
///
/// # Bursts
///
/// A pause earns at most a *burst*: the bytes of a tenth of a second, but at least two. All
/// transfers together move no more than that at once, however many they are and however long the
/// pause was. It makes no difference whether the pause is within a transfer or between two.
///
/// Two kinds of bytes may arrive after that burst and in addition to it, because they are counted
/// when they leave the source: those that wait for a stalled sink, and those that a transfer [from
/// a reader](crate::Transfer::from_reader) may read while it sleeps in `read`. All of them together
/// are at most one more burst, and 1024 bytes for each transfer that has some.
///
/// A message, a record, a datagram or a [prefix](crate::Transfer::prefix) moves at once, and so does
/// all that a source pipe holds while fewer than two descriptors are free for a private pipe. If that
/// is longer than the rate allows, the next bytes of all transfers wait until it is paid for.
///
/// # Equal parts
///
/// Transfers that always want to move get equal parts of the rate, whatever the lengths of their
/// steps and messages, and the others get what one of them does not want. The parts are equal over
/// some seconds, not at each moment: a transfer that has moved a long message waits until the
/// others have moved as much. While the rate changes many times a second, the parts may differ.
///
/// A transfer that comes late for its turn (a [`Session`] whose caller does other things, for
/// example) delays the others by at most a tenth of a second. Each direction of a
/// [`Relay`](crate::Relay) counts as a transfer.
///
/// Sessions that one loop steps in a fixed order get equal parts if a pass takes less than about 50
/// ms. If it takes longer, none starves, but the last ones get less: with 40 sessions and passes of
/// 300 ms a tenth less, and more on a busy machine. If an equal part of a burst is less than 1024
/// bytes, they may get nothing. Begin each pass at another session to make the parts equal.
///
/// A step moves an equal part of a burst, or more if other transfers leave tokens unused. The rate
/// makes no step shorter than 1024 bytes or a fiftieth of a second's worth, whichever is less.
///
/// Each of many transfers that wait asks about 10 to 40 times a second. (A few at a high rate ask
/// for each 256 KiB.) For thousands of transfers at one rate, choose sessions in one loop or tokio
/// instead of threads.
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
#[derive(Clone)]
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
        Self::at(NanoRate::per_second(per_second))
    }

    /// Creates a rate limiter of `n` bytes (or records) in each `period`, for a rate that is not a
    /// whole number per second. The rate is rounded down to billionths of a byte per second, but
    /// not to 0.
    ///
    /// Only the quotient matters: ten lines a minute are one line every six seconds, and never ten
    /// lines at once.
    ///
    /// # Examples
    ///
    /// Ten lines a minute, for a log that people read:
    ///
    /// ```
    /// use std::time::Duration;
    /// use zcopy::RateLimiter;
    ///
    /// let rate_limiter = RateLimiter::per(10, Duration::from_secs(60));
    /// assert_eq!(rate_limiter.rate(), 1, "0.166, rounded up");
    /// ```
    #[must_use]
    pub fn per(n: u64, period: Duration) -> Self {
        Self::at(NanoRate::per(n, period))
    }

    fn at(rate: NanoRate) -> Self {
        let bucket = Bucket {
            tokens: TokenBucket::new(rate, Duration::ZERO),
            has_begun: false,
            n_accounts: 0,
            #[cfg(test)]
            spent: 0,
        };
        Self {
            bucket: Arc::new(Mutex::new(bucket)),
        }
    }

    /// Returns the rate in bytes (or records) per second, rounded up.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(zcopy::RateLimiter::new(1000).rate(), 1000);
    /// ```
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.with(|bucket| bucket.tokens.rate().units())
    }

    /// Changes the rate to this many bytes (or records) per second, at least 1. Any thread may
    /// call it, and an observer.
    ///
    /// Running transfers use the new rate from their next steps on. (What they have earned since
    /// their last steps is counted at the new rate, too.) A transfer that sleeps because of the old
    /// rate wakes within 100 ms; for one that runs by [`Session::step`](crate::Session::step), the
    /// [time-out](crate::Interest::timeout) is at most 100 ms.
    ///
    /// Bytes that wait because a long message has exceeded the rate wait no longer if the rate is
    /// lowered meanwhile.
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
        self.with(|bucket| bucket.tokens.set_rate(NanoRate::per_second(per_second)));
    }

    /// Changes the rate to `n` bytes (or records) in each `period`, rounded as by
    /// [`per`](Self::per), and in all else as [`set_rate`](Self::set_rate) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let rate_limiter = zcopy::RateLimiter::new(10);
    /// rate_limiter.set_rate_per(3, Duration::from_secs(2));
    /// assert_eq!(rate_limiter.rate(), 2, "1.5, rounded up");
    /// ```
    pub fn set_rate_per(&self, n: u64, period: Duration) {
        self.with(|bucket| bucket.tokens.set_rate(NanoRate::per(n, period)));
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

/// Shows the exact rate, in units per second.
impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.with(|bucket| bucket.tokens.rate());
        f.debug_tuple("RateLimiter")
            .field(&format_args!("{rate}/s"))
            .finish()
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
