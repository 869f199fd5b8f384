//! Formats for durations, the time left and the time of finish.

use std::time::Duration;

use jiff::{Span, SpanRound, Unit, Zoned};

/// The longest duration that is shown: a second less than a million days.
const MAX_SECONDS: u64 = 1_000_000 * 86_400 - 1;

/// The latest time of finish from now: 7000 years of 365 days.
const MAX_SECONDS_AHEAD: u64 = 7000 * 365 * 86_400;

/// The time from now at which the time of finish gets a date.
const MIN_DATE_AHEAD: Duration = Duration::from_secs(6 * 3600);

/// Formats a duration: `0:00:03`, `23:59:59`, and from a day on `1:02:03:04`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use zcopy_cli::common::progress::duration::duration;
///
/// assert_eq!(duration(Duration::from_millis(62_900)), "0:01:02");
/// assert_eq!(duration(Duration::from_secs(93_784)), "1:02:03:04");
/// ```
#[must_use]
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs().min(MAX_SECONDS);
    // Exactly one day is shown as 24 hours.
    let largest = if duration <= Duration::from_secs(86_400) {
        Unit::Hour
    } else {
        Unit::Day
    };
    let parts = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| Span::new().try_seconds(seconds).ok())
        .and_then(|span| {
            let rounding = SpanRound::new().largest(largest).days_are_24_hours();
            span.round(rounding).ok()
        })
        // A span can hold a million days.
        .unwrap_or_default();
    let clock = (parts.get_hours(), parts.get_minutes(), parts.get_seconds());
    match (largest, clock) {
        (Unit::Day, (h, m, s)) => format!("{}:{h:02}:{m:02}:{s:02}", parts.get_days()),
        (_, (h, m, s)) => format!("{h}:{m:02}:{s:02}"),
    }
}

/// Formats the time left: `ETA 0:00:03`, or dashes of the same width if nothing moves.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use zcopy_cli::common::progress::duration::eta;
///
/// assert_eq!(eta(Some(Duration::from_secs(3))), "ETA 0:00:03");
/// assert_eq!(eta(None), "ETA -:--:--");
/// ```
#[must_use]
pub fn eta(remaining: Option<Duration>) -> String {
    match remaining {
        Some(remaining) => format!("ETA {}", duration(remaining)),
        None => "ETA -:--:--".to_owned(),
    }
}

/// Formats the time of finish: `FIN 17:04:05`, with a date if it is more than six hours ahead.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use zcopy_cli::common::progress::duration::finish;
///
/// let noon = jiff::civil::date(2027, 1, 15).at(12, 0, 0, 0).to_zoned(jiff::tz::TimeZone::UTC).unwrap();
/// assert_eq!(finish(&noon, Some(Duration::from_secs(61))), "FIN 12:01:01");
/// assert_eq!(finish(&noon, Some(Duration::from_secs(86_400))), "FIN 2027-01-16 12:00:00");
/// ```
#[must_use]
pub fn finish(now: &Zoned, remaining: Option<Duration>) -> String {
    let Some(remaining) = remaining else {
        return "FIN --:--:--".to_owned();
    };
    let form = if Duration::from_secs(remaining.as_secs()) > MIN_DATE_AHEAD {
        "FIN %Y-%m-%d %H:%M:%S"
    } else {
        "FIN %H:%M:%S"
    };
    let ahead = remaining.min(Duration::from_secs(MAX_SECONDS_AHEAD));
    match now.checked_add(ahead) {
        Ok(finish) => finish.strftime(form).to_string(),
        // This happens only if the clock is thousands of years ahead.
        Err(_) => "FIN --:--:--".to_owned(),
    }
}

/// Formats a duration as a number of seconds with four decimals.
#[must_use]
pub fn bare(duration: Duration) -> String {
    format!("{:.4}", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn at(h: i8, m: i8, s: i8) -> Zoned {
        jiff::civil::date(2027, 1, 15)
            .at(h, m, s, 0)
            .to_zoned(TimeZone::UTC)
            .unwrap()
    }

    #[test]
    fn durations_are_as_pv_shows_them() {
        for (seconds, shown) in [
            (0.0, "0:00:00"),
            (0.999, "0:00:00"),
            (59.999, "0:00:59"),
            (60.0, "0:01:00"),
            (3599.9, "0:59:59"),
            (3600.0, "1:00:00"),
            (86_399.0, "23:59:59"),
            (86_400.0, "24:00:00"),
            (86_400.5, "1:00:00:00"),
            (86_401.0, "1:00:00:01"),
            (90_061.0, "1:01:01:01"),
            (8_640_000.0, "100:00:00:00"),
            (359_999_999.0, "4166:15:59:59"),
            (360_000_000.0, "4166:16:00:00"),
            (10_000_000_000.0, "115740:17:46:40"),
            (86_399_999_999.0, "999999:23:59:59"),
            (1e12, "999999:23:59:59"),
        ] {
            let given = Duration::from_secs_f64(seconds);
            assert_eq!(duration(given), shown, "{seconds} s");
        }
        assert_eq!(duration(Duration::MAX), "999999:23:59:59");
    }

    #[test]
    fn the_time_of_finish_has_a_date_from_six_hours_on() {
        let now = at(8, 0, 1);
        for (seconds, shown) in [
            (0, "FIN 08:00:01"),
            (21_600, "FIN 14:00:01"),
            (21_601, "FIN 2027-01-15 14:00:02"),
            (86_400, "FIN 2027-01-16 08:00:01"),
            (359_999_999, "FIN 2038-06-13 00:00:00"),
            (1_000_000_000_000, "FIN 9022-05-24 08:00:01"),
        ] {
            assert_eq!(finish(&now, Some(Duration::from_secs(seconds))), shown);
        }
    }

    #[test]
    fn a_finish_that_nobody_can_tell_is_as_wide_as_one_today() {
        assert_eq!(finish(&at(0, 0, 0), None).len(), "FIN 08:00:01".len());
        assert_eq!(eta(None).len(), eta(Some(Duration::ZERO)).len());
        let end_of_time = jiff::civil::date(9990, 1, 1)
            .at(0, 0, 0, 0)
            .to_zoned(TimeZone::UTC)
            .unwrap();
        assert_eq!(finish(&end_of_time, Some(Duration::MAX)), "FIN --:--:--");
    }
}
