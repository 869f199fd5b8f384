//! The local time of day.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The rules of a POSIX zone that names daylight saving time without rules: those of the United
/// States, as in glibc and musl.
const DEFAULT_RULES: &str = ",M3.2.0,M11.1.0";

/// Returns the zone of `TZ`, or else of the system. `TZ=CET-1CEST` gets the default rules.
#[must_use]
pub fn local_zone() -> TimeZone {
    TimeZone::try_system().unwrap_or_else(|_| {
        let given = std::env::var("TZ").unwrap_or_default();
        let with_rules = TimeZone::posix(&(given + DEFAULT_RULES));
        with_rules.unwrap_or_else(|_| TimeZone::system())
    })
}

/// Returns the time now, in the local zone.
#[must_use]
pub fn now() -> Zoned {
    Timestamp::now().to_zoned(local_zone())
}
