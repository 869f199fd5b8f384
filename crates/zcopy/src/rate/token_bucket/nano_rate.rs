//! [`NanoRate`]: a rate that need not be a whole number.

use std::fmt;
use std::time::Duration;

/// A rate in billionths of a unit per second: at least one, and at most 2^64 - 1 units per second.
///
/// Tokens are counted in parts of a unit, [`UNIT`] to the unit, so that each nanosecond earns a
/// whole number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NanoRate(u128);

/// How many parts a unit has: a billionth of a unit per second earns one part in a nanosecond.
pub(super) const UNIT: i128 = 1_000_000_000_000_000_000;

const BILLION: u128 = 1_000_000_000;

/// The highest rate, so that the bytes of all bursts that transfers hold fit into 64 bits.
const MAX: u128 = u64::MAX as u128 * BILLION;

impl NanoRate {
    /// Returns the rate of `n` units in each `period`.
    pub(crate) fn per(n: u64, period: Duration) -> Self {
        let nanos = period.as_nanos().max(1);
        // The product is below 2^64 * 10^18, and so below 2^124.
        let rate = u128::from(n) * BILLION * BILLION / nanos;
        Self(rate.clamp(1, MAX))
    }

    /// Returns the rate of `n` units per second, at least one.
    pub(crate) fn per_second(n: u64) -> Self {
        Self(u128::from(n.max(1)) * BILLION)
    }

    /// Returns the whole units per second, rounded up.
    pub(crate) fn units(self) -> u64 {
        u64::try_from(self.0.div_ceil(BILLION)).unwrap_or(u64::MAX)
    }

    /// Returns the whole units in the `n`th part of a second, rounded down.
    pub(super) fn units_in(self, n: u64) -> u64 {
        u64::try_from(self.0 / (BILLION * u128::from(n))).unwrap_or(u64::MAX)
    }

    /// Returns the parts of a unit that are earned in a time.
    pub(super) fn earned_in(self, time: Duration) -> i128 {
        i128::try_from(time.as_nanos().saturating_mul(self.0)).unwrap_or(i128::MAX)
    }

    /// Returns how long it takes to earn these parts of a unit.
    pub(super) fn time_to_earn(self, parts: i128) -> Duration {
        let nanos = parts.max(0).unsigned_abs().div_ceil(self.0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns about `n * self / before`.
    pub(super) fn scale(self, n: i128, before: Self) -> i128 {
        // Rates of 62 bits are precise enough, and their product fits.
        let highest = self.0.max(before.0);
        let shift = (u128::BITS - highest.leading_zeros()).saturating_sub(62);
        let rate = |rate: Self| (rate.0 >> shift).cast_signed().max(1);
        let (after, before) = (rate(self), rate(before));
        let whole = (n / before).saturating_mul(after);
        whole.saturating_add(n % before * after / before)
    }
}

/// Shows the units per second, with up to nine decimals.
impl fmt::Display for NanoRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (units, billionths) = (self.0 / BILLION, self.0 % BILLION);
        if billionths == 0 {
            return write!(f, "{units}");
        }
        let decimals = format!("{billionths:09}");
        write!(f, "{units}.{}", decimals.trim_end_matches('0'))
    }
}

/// Returns the parts of whole units.
pub(super) fn parts(units: u64) -> i128 {
    i128::from(units) * UNIT
}

/// Returns the whole units in parts, at least 0.
pub(super) fn whole_units(parts: i128) -> u64 {
    u64::try_from(parts.max(0) / UNIT).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_rate_has_nine_decimals() {
        assert_eq!(NanoRate::per(3, 2 * SECOND), NanoRate(1_500_000_000));
        assert_eq!(NanoRate::per(1, 3600 * SECOND), NanoRate(277_777));
        assert_eq!(NanoRate::per(1, Duration::MAX), NanoRate(1));
        assert_eq!(NanoRate::per(0, SECOND), NanoRate(1));
        assert_eq!(NanoRate::per_second(0), NanoRate::per_second(1));
        let most = NanoRate::per(u64::MAX, Duration::ZERO);
        assert_eq!(most, NanoRate::per_second(u64::MAX));
        assert_eq!((most.units(), most.units_in(10)), (u64::MAX, u64::MAX / 10));
        assert_eq!(most.earned_in(Duration::MAX), i128::MAX);
    }

    #[test]
    fn a_rate_is_shown_with_its_decimals() {
        assert_eq!(NanoRate::per_second(1000).to_string(), "1000");
        assert_eq!(NanoRate::per(3, 2 * SECOND).to_string(), "1.5");
        assert_eq!(NanoRate::per(10, 60 * SECOND).to_string(), "0.166666666");
        let rate_limiter = crate::RateLimiter::per(3, 2 * SECOND);
        assert_eq!(format!("{rate_limiter:?}"), "RateLimiter(1.5/s)");
    }

    #[test]
    fn units_are_earned_in_their_time() {
        let rate = NanoRate::per(3, 2 * SECOND);
        assert_eq!(rate.earned_in(4 * SECOND), parts(6));
        assert_eq!(rate.time_to_earn(parts(6)), 4 * SECOND);
        assert_eq!(rate.time_to_earn(1), Duration::from_nanos(1));
        assert_eq!(
            (rate.units(), rate.units_in(1), rate.units_in(10)),
            (2, 1, 0)
        );
        let hourly = NanoRate::per(1, 3600 * SECOND);
        let hour = hourly.time_to_earn(parts(1)).as_secs_f64() / 3600.0;
        assert!((hour - 1.0).abs() < 1e-5, "{hour}");
    }

    #[test]
    fn a_debt_is_scaled_by_the_rates() {
        let (low, high) = (NanoRate::per_second(2), NanoRate::per_second(6));
        assert_eq!((low.scale(9, high), high.scale(9, low)), (3, 27));
        let debt = parts(u64::MAX);
        assert_eq!((low.scale(debt, low), high.scale(debt, high)), (debt, debt));
        let most = NanoRate::per_second(u64::MAX);
        assert_eq!(most.scale(debt, low), i128::MAX);
        assert!((0..=parts(7)).contains(&low.scale(debt, most)));
        assert_eq!(most.scale(debt, most), debt);
    }
}
