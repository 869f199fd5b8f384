//! A token bucket that limits the rate of a transfer. The caller passes the time.

use std::time::Duration;

/// Allows `rate` bytes per second, with a burst of at most a tenth of a second's worth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    rate: u64,
    /// How many billionths of a byte may be moved now. Billionths lose nothing to rounding at low
    /// rates. Negative after more bytes were spent than allowed.
    tokens: i128,
    last: Duration,
}

const BILLION: i128 = 1_000_000_000;

impl TokenBucket {
    /// Creates a bucket for `rate` bytes per second, empty at the time `now`.
    pub(crate) fn new(rate: u64, now: Duration) -> Self {
        Self {
            rate: rate.max(1),
            tokens: 0,
            last: now,
        }
    }

    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// Changes the rate. At a lower rate a debt shrinks in proportion, so that it is paid off in
    /// the same time as before. At a higher rate it stays the same, and is paid off sooner.
    pub(crate) fn set_rate(&mut self, rate: u64) {
        let rate = rate.max(1);
        if self.tokens < 0 && rate < self.rate {
            let scaled = self.tokens.checked_mul(i128::from(rate));
            self.tokens = scaled.map_or(0, |scaled| scaled / i128::from(self.rate));
        }
        self.rate = rate;
    }

    /// Returns how many bytes may be moved at the time `now`, which is at least the quantum, or
    /// `wanted` if that is less.
    ///
    /// # Errors
    ///
    /// Returns how long to wait until that many may be moved.
    pub(crate) fn allow(&mut self, now: Duration, wanted: u64) -> Result<u64, Duration> {
        let since = now.saturating_sub(self.last).as_nanos();
        let earned =
            i128::try_from(since.saturating_mul(u128::from(self.rate))).unwrap_or(i128::MAX);
        self.last = now;
        self.tokens = self
            .tokens
            .saturating_add(earned)
            .min(i128::from(self.burst()) * BILLION);
        let quantum = i128::from(self.quantum().min(wanted));
        let whole = self.tokens / BILLION;
        if whole >= quantum {
            return Ok(u64::try_from(whole).unwrap_or(u64::MAX));
        }
        let missing = quantum * BILLION - self.tokens;
        let nanos = missing.unsigned_abs().div_ceil(u128::from(self.rate));
        Err(Duration::from_nanos(
            u64::try_from(nanos).unwrap_or(u64::MAX),
        ))
    }

    /// Removes `n` bytes from the bucket. More than were allowed (a message moves whole) become a
    /// debt that delays later bytes.
    pub(crate) fn spend(&mut self, n: u64) {
        self.tokens = self.tokens.saturating_sub(i128::from(n) * BILLION);
    }

    /// Returns the most bytes that can be saved up.
    fn burst(&self) -> u64 {
        (self.rate / 10).max(1)
    }

    /// Returns the fewest bytes that are worth a step: a fiftieth of a second's worth, but at most
    /// one buffer.
    fn quantum(&self) -> u64 {
        (self.rate / 50).clamp(1, 256 << 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many bytes the bucket allows within the time, with steps that take no time.
    fn moved_in(seconds: u64, rate: u64) -> u64 {
        let end = Duration::from_secs(seconds);
        let (mut now, mut moved) = (Duration::ZERO, 0);
        let mut token_bucket = TokenBucket::new(rate, now);
        while now <= end {
            match token_bucket.allow(now, u64::MAX) {
                Ok(n) => {
                    token_bucket.spend(n);
                    moved += n;
                }
                Err(wait) => now += wait,
            }
        }
        moved
    }

    #[test]
    fn the_rate_is_kept_at_every_magnitude() {
        for rate in [1, 10, 1_000, 1 << 20, 10 << 30] {
            let moved = moved_in(10, rate);
            let wanted = u128::from(rate) * 10;
            let error = u128::from(moved).abs_diff(wanted);
            assert!(
                error <= wanted / 50 + 1,
                "{moved} bytes in 10 s at {rate} bytes/s"
            );
        }
    }

    #[test]
    fn the_largest_rate_does_not_overflow() {
        let mut token_bucket = TokenBucket::new(u64::MAX, Duration::ZERO);
        assert_eq!(
            token_bucket.allow(Duration::MAX, u64::MAX),
            Ok(u64::MAX / 10)
        );
    }

    #[test]
    fn a_pause_earns_no_more_than_a_tenth_of_a_second() {
        let mut token_bucket = TokenBucket::new(1000, Duration::ZERO);
        assert_eq!(
            token_bucket.allow(Duration::from_secs(3600), u64::MAX),
            Ok(100)
        );
    }

    #[test]
    fn a_new_rate_holds_from_the_next_moment_on_in_both_directions() {
        let mut token_bucket = TokenBucket::new(10, Duration::ZERO);
        token_bucket.set_rate(1_000_000);
        let now = Duration::from_millis(20);
        assert_eq!(token_bucket.allow(now, u64::MAX), Ok(20_000));
        // Tokens saved at the old rate are cut to a tenth of a second's worth of the new one.
        token_bucket.set_rate(1000);
        assert_eq!(token_bucket.allow(now, u64::MAX), Ok(100));
    }

    #[test]
    fn a_new_rate_makes_no_debt_longer() {
        let second = Duration::from_secs(1);
        for (rate, wait) in [(1000, 10), (100, 10), (10_000, 1)] {
            let mut token_bucket = TokenBucket::new(1000, Duration::ZERO);
            token_bucket.spend(10_000);
            token_bucket.set_rate(rate);
            let left = token_bucket.allow(Duration::ZERO, 0);
            assert_eq!(left, Err(second * wait), "{rate} bytes/s");
        }
    }

    #[test]
    fn the_last_bytes_need_not_fill_a_quantum() {
        let mut token_bucket = TokenBucket::new(1000, Duration::ZERO);
        assert_eq!(token_bucket.allow(Duration::from_millis(1), 1), Ok(1));
        assert_eq!(
            token_bucket.allow(Duration::from_millis(1), 100),
            Err(Duration::from_millis(19))
        );
    }
}
