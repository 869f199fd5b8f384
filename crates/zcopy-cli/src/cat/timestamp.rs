//! [`Timestamper`]: writes in front of a line when it was read, and the seconds since the previous
//! one.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::time::{Duration, Instant};

use jiff::fmt::strtime::{BrokenDownTime, Config, PosixCustom};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::common::cli::value::invalid;
use crate::common::progress::clock;

/// The format of `--timestamp` without a value: `2026-11-21T18:14:38.000271+0100`.
pub const DEFAULT_FORMAT: &str = "%Y-%m-%dT%H:%M:%S%.6f%z";

/// The delta of a line that was read together with the previous one.
const ZERO_DELTA: &[u8] = b"    0.000000 ";

/// The zone of the written times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// The zone of `TZ` or of the system, which is looked up at the first line.
    #[default]
    Local,
    /// UTC.
    Utc,
}

/// The time on two clocks.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    /// `CLOCK_REALTIME`, which can be set.
    pub time: Timestamp,
    /// `CLOCK_MONOTONIC`.
    pub instant: Instant,
}

impl ClockReading {
    /// Reads both clocks.
    #[must_use]
    pub fn now() -> Self {
        Self {
            time: Timestamp::now(),
            instant: Instant::now(),
        }
    }
}

/// The format is invalid.
#[derive(Debug, thiserror::Error)]
#[error("{}", invalid("time format", format))]
pub struct FormatError {
    format: OsString,
    source: jiff::Error,
}

/// Writes in front of a line the time when its end was read, and the seconds since the previous
/// line, each followed by a space.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
/// use jiff::Timestamp;
/// use zcopy_cli::cat::timestamp::{ClockReading, Timestamper, Zone};
///
/// let begin = Instant::now();
/// let mut seconds = 0..;
/// let mut timestamper = Timestamper::new()
///     .time("%H:%M:%S".as_ref(), Zone::Utc)
///     .unwrap()
///     .delta(true)
///     .clock(|| {
///         let passed = Duration::from_secs(seconds.next().unwrap());
///         ClockReading { time: Timestamp::UNIX_EPOCH + passed, instant: begin + passed }
///     });
/// let mut out = Vec::new();
/// timestamper.read_clock();
/// timestamper.push(&mut out);
/// assert_eq!(out, b"00:00:00     0.000000 ");
/// out.clear();
/// timestamper.read_clock();
/// timestamper.push(&mut out);
/// assert_eq!(out, b"00:00:01     1.000000 ");
///
/// let error = Timestamper::new().time("%!".as_ref(), Zone::Utc).unwrap_err();
/// assert!(error.to_string().starts_with("invalid time format"));
/// ```
#[derive(Clone, Debug)]
pub struct Timestamper<C = fn() -> ClockReading> {
    clock: C,
    time: Option<CachedTime>,
    has_delta: bool,
    /// When the current bytes were read.
    read_at: Option<ClockReading>,
    /// When the previous line was read.
    previous: Option<Instant>,
}

impl Timestamper {
    /// Returns one that writes nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            clock: ClockReading::now,
            time: None,
            has_delta: false,
            read_at: None,
            previous: None,
        }
    }
}

impl Default for Timestamper {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> Timestamper<C> {
    /// Writes the time in a format of `strftime(3)` as jiff implements it: in the C locale, without
    /// the modifiers `E` and `O`, and with `%N`, `%f` and `%.6f` for fractions of a second, `%Q`
    /// for the name of the zone and `%:z` for `+01:00`.
    ///
    /// # Errors
    ///
    /// The format is invalid.
    pub fn time(mut self, format: &OsStr, zone: Zone) -> Result<Self, FormatError> {
        self.time = Some(CachedTime::new(format, zone)?);
        Ok(self)
    }

    /// Sets whether to write the seconds since the previous line, on `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn delta(mut self, is_wanted: bool) -> Self {
        self.has_delta = is_wanted;
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock<D>(self, clock: D) -> Timestamper<D> {
        Timestamper {
            clock,
            time: self.time,
            has_delta: self.has_delta,
            read_at: self.read_at,
            previous: self.previous,
        }
    }
}

impl<C: FnMut() -> ClockReading> Timestamper<C> {
    /// Reads the clock. Call it when bytes have been read.
    pub fn read_clock(&mut self) {
        self.read_at = Some((self.clock)());
        if let Some(time) = &mut self.time {
            time.text.clear();
        }
    }

    /// Appends the time of the last reading to `out`, for the next line.
    pub fn push(&mut self, out: &mut Vec<u8>) {
        let read_at = *self.read_at.get_or_insert_with(&mut self.clock);
        if let Some(time) = &mut self.time {
            out.extend_from_slice(time.text(read_at.time));
        }
        if self.has_delta {
            let previous = self.previous.replace(read_at.instant);
            let previous = previous.unwrap_or(read_at.instant);
            let passed = read_at.instant.saturating_duration_since(previous);
            if passed == Duration::ZERO {
                out.extend_from_slice(ZERO_DELTA);
            } else {
                // Writing to a vector cannot fail.
                let _ = write!(out, "{:5}.{:06} ", passed.as_secs(), passed.subsec_micros());
            }
        }
    }
}

/// A time format, and the formatted text of the last time, which lines that are read together
/// share.
#[derive(Clone, Debug)]
struct CachedTime {
    format: Box<[u8]>,
    zone: Zone,
    /// The rules of the zone, once they are looked up. That takes 2 ms.
    rules: Option<TimeZone>,
    /// The formatted time and a space. Empty if the time has not been formatted yet.
    text: Vec<u8>,
}

impl CachedTime {
    fn new(format: &OsStr, zone: Zone) -> Result<Self, FormatError> {
        let bytes = format.as_encoded_bytes();
        let any_time = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
        BrokenDownTime::from(&any_time)
            .format_with_config(&config(), bytes, &mut Vec::new())
            .map_err(|source| FormatError {
                format: format.into(),
                source,
            })?;
        Ok(Self {
            format: bytes.into(),
            zone,
            rules: None,
            text: Vec::new(),
        })
    }

    fn text(&mut self, time: Timestamp) -> &[u8] {
        if self.text.is_empty() {
            let zone = self.zone;
            let rules = self.rules.get_or_insert_with(|| match zone {
                Zone::Local => clock::local_zone(),
                Zone::Utc => TimeZone::UTC,
            });
            let time = Zoned::new(time, rules.clone());
            let formatted = BrokenDownTime::from(&time).format_with_config(
                &config(),
                &self.format,
                &mut self.text,
            );
            // Only an invalid format fails, and `new` has checked it.
            debug_assert!(formatted.is_ok(), "{formatted:?}");
            self.text.push(b' ');
        }
        &self.text
    }
}

/// Formats `%c`, `%r`, `%X` and `%x` as in the C locale.
fn config() -> Config<PosixCustom> {
    Config::new().custom(PosixCustom::new())
}

#[cfg(test)]
mod tests;
