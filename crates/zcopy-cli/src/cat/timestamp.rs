//! The time in front of a line: when it was read, and how long after the one before.

use std::ffi::OsStr;
use std::io::Write as _;
use std::time::{Duration, Instant};

use jiff::fmt::strtime::{BrokenDownTime, Config, PosixCustom};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::{quote, time};

/// The format of `--timestamp` alone: `2026-11-21T18:14:38.000271+0100`.
pub const DEFAULT_FORMAT: &str = "%Y-%m-%dT%H:%M:%S%.6f%z";

/// The first line of a reading aside, no time has passed since the line before.
const NO_DELTA: &[u8] = b"    0.000000 ";

/// Where the clock hangs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// Here: the zone of `TZ` or of the system, which is looked up when the first line comes.
    #[default]
    Local,
    /// In Greenwich.
    Utc,
}

/// One look at the clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time of day, which somebody may set.
    pub time: Timestamp,
    /// The clock that only runs forward.
    pub instant: Instant,
}

impl Moment {
    /// This very moment.
    #[must_use]
    pub fn now() -> Self {
        Self {
            time: Timestamp::now(),
            instant: Instant::now(),
        }
    }
}

/// A format that strftime does not know.
#[derive(Debug, thiserror::Error)]
#[error("invalid time format: {name}")]
pub struct BadFormat {
    /// As it was given, quoted.
    name: String,
    source: jiff::Error,
}

/// What stands in front of a line: the time when its end was read, then the seconds since the line before, then a
/// blank after each.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
/// use jiff::Timestamp;
/// use zcopy_cli::cat::timestamp::{Moment, Stamp, Zone};
///
/// let begin = Instant::now();
/// let mut seconds = 0..;
/// let mut stamp = Stamp::new()
///     .time("%H:%M:%S".as_ref(), Zone::Utc)
///     .unwrap()
///     .delta(true)
///     .clock(|| {
///         let passed = Duration::from_secs(seconds.next().unwrap());
///         Moment { time: Timestamp::UNIX_EPOCH + passed, instant: begin + passed }
///     });
/// let mut out = Vec::new();
/// stamp.look();
/// stamp.put(&mut out);
/// assert_eq!(out, b"00:00:00     0.000000 ");
/// out.clear();
/// stamp.look();
/// stamp.put(&mut out);
/// assert_eq!(out, b"00:00:01     1.000000 ");
///
/// let error = Stamp::new().time("%!".as_ref(), Zone::Utc).unwrap_err();
/// assert!(error.to_string().starts_with("invalid time format"));
/// ```
#[derive(Clone, Debug)]
pub struct Stamp<C = fn() -> Moment> {
    clock: C,
    time: Option<Time>,
    has_delta: bool,
    /// When the bytes at hand were read.
    read: Option<Moment>,
    /// When the line before was.
    before: Option<Instant>,
}

impl Stamp {
    /// Nothing, until it is told what.
    #[must_use]
    pub fn new() -> Self {
        Self {
            clock: Moment::now,
            time: None,
            has_delta: false,
            read: None,
            before: None,
        }
    }
}

impl Default for Stamp {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> Stamp<C> {
    /// The time in a format of `strftime(3)`, as jiff knows it: in the C locale, without the modifiers `E` and `O`, and with `%N`,
    /// `%f` and `%.6f` for fractions of the second, `%Q` for the name of the zone and `%:z` for `+01:00`.
    ///
    /// # Errors
    ///
    /// [`BadFormat`], if it is not one.
    pub fn time(mut self, format: &OsStr, zone: Zone) -> Result<Self, BadFormat> {
        self.time = Some(Time::new(format, zone)?);
        Ok(self)
    }

    /// The seconds since the line before, by the clock that nobody sets.
    #[must_use]
    pub fn delta(mut self, is_wanted: bool) -> Self {
        self.has_delta = is_wanted;
        self
    }

    /// Tells the time by another clock.
    #[must_use]
    pub fn clock<D>(self, clock: D) -> Stamp<D> {
        Stamp {
            clock,
            time: self.time,
            has_delta: self.has_delta,
            read: self.read,
            before: self.before,
        }
    }
}

impl<C: FnMut() -> Moment> Stamp<C> {
    /// Looks at the clock: something has been read.
    pub fn look(&mut self) {
        self.read = Some((self.clock)());
        if let Some(time) = &mut self.time {
            time.text.clear();
        }
    }

    /// Puts the time of the last look behind what is in `out`: a line begins there.
    pub fn put(&mut self, out: &mut Vec<u8>) {
        let read = *self.read.get_or_insert_with(&mut self.clock);
        if let Some(time) = &mut self.time {
            out.extend_from_slice(time.text(read.time));
        }
        if self.has_delta {
            let before = self.before.replace(read.instant).unwrap_or(read.instant);
            let passed = read.instant.saturating_duration_since(before);
            if passed == Duration::ZERO {
                out.extend_from_slice(NO_DELTA);
            } else {
                // Writing to a vector cannot fail.
                let _ = write!(out, "{:5}.{:06} ", passed.as_secs(), passed.subsec_micros());
            }
        }
    }
}

/// The time of day, formatted once for all lines that have it.
#[derive(Clone, Debug)]
struct Time {
    format: Box<[u8]>,
    zone: Zone,
    /// That zone, when it has been looked up: it takes 2 ms.
    rules: Option<TimeZone>,
    /// The time at hand with a blank behind it, or nothing if it has not been formatted yet.
    text: Vec<u8>,
}

impl Time {
    fn new(format: &OsStr, zone: Zone) -> Result<Self, BadFormat> {
        let bytes = format.as_encoded_bytes();
        let any_time = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
        BrokenDownTime::from(&any_time)
            .format_with_config(&config(), bytes, &mut Vec::new())
            .map_err(|source| BadFormat {
                name: quote::argument(format),
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
                Zone::Local => time::local_zone(),
                Zone::Utc => TimeZone::UTC,
            });
            let time = Zoned::new(time, rules.clone());
            let formatted = BrokenDownTime::from(&time).format_with_config(
                &config(),
                &self.format,
                &mut self.text,
            );
            // What worked for one time works for all: only the format can be wrong, and it has been checked.
            debug_assert!(formatted.is_ok(), "{formatted:?}");
            self.text.push(b' ');
        }
        &self.text
    }
}

/// `%c`, `%r`, `%X` and `%x` as the C locale has them.
fn config() -> Config<PosixCustom> {
    Config::new().custom(PosixCustom::new())
}

#[cfg(test)]
mod tests;
