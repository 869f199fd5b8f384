//! Progress for programs: an object in JSON, a line each.

use std::borrow::Cow;

use serde::Serialize;

use super::display;
use super::ending::{Ending, State};
use super::reading::Reading;
use crate::history::Statistics;
use crate::json::rounded;

/// One moment of a transfer.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// The side of a command: `in` or `out`.
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<&'static str>,
    /// Seconds since the beginning.
    elapsed: f64,
    /// Bytes that have arrived.
    bytes: u64,
    /// Lines that have arrived, if they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<u64>,
    /// How many bytes, or lines, there will be.
    total: Option<u64>,
    percent: Option<f64>,
    /// A second, in what is counted.
    rate: f64,
    average: f64,
    /// Seconds that are left.
    eta: Option<f64>,
    /// What moves the bytes.
    route: Option<String>,
    over: bool,
    /// How it ended, in the last object.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    /// The first message about what failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// The digest of all bytes, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<&'a str>,
}

impl<'a> Line<'a> {
    pub(crate) fn of(
        reading: &Reading,
        name: Option<&'a str>,
        bytes: u64,
        counts_bytes: bool,
        route: Option<zcopy::Strategy>,
    ) -> Self {
        Self {
            name,
            side: None,
            elapsed: rounded(reading.elapsed.as_secs_f64()),
            bytes,
            lines: (!counts_bytes).then_some(reading.moved),
            total: reading.total,
            percent: reading.percent().map(rounded),
            rate: rounded(reading.rate),
            average: rounded(reading.average),
            eta: reading.remaining.map(|eta| rounded(eta.as_secs_f64())),
            route: route.map(|route| route.to_string()),
            over: reading.is_over,
            state: None,
            error: None,
            digest: None,
        }
    }

    /// Names the side of a command.
    pub(crate) fn side(self, side: Option<&'static str>) -> Self {
        Self { side, ..self }
    }

    /// Makes it the last object, which says how the transfer ended.
    pub(crate) fn ending(self, ending: &'a Ending) -> Self {
        Self {
            over: true,
            state: Some(ending.state),
            error: ending.error.as_deref(),
            digest: ending.digest.as_deref(),
            ..self
        }
    }
}

/// An input that has come to its end.
#[derive(Debug, Serialize)]
pub(crate) struct File<'a> {
    #[serde(rename = "file")]
    name: Cow<'a, str>,
    /// What came of it: bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// or lines, if they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<u64>,
    /// Seconds that it took.
    elapsed: f64,
    /// A second, in what is counted.
    rate: f64,
}

impl<'a> File<'a> {
    pub(super) fn of(file: &'a display::File, rate: f64, counts_bytes: bool) -> Self {
        Self {
            // What is no UTF-8 has no place in JSON.
            name: file.name.to_string_lossy(),
            bytes: counts_bytes.then_some(file.counted),
            lines: (!counts_bytes).then_some(file.counted),
            elapsed: rounded(file.took.as_secs_f64()),
            rate: rounded(rate),
        }
    }
}

/// The rates of all intervals, in bytes per second; nothing if it was over before it could be measured.
#[derive(Debug, Serialize)]
pub(crate) struct Rates {
    rates: Option<Spread>,
}

#[derive(Debug, Serialize)]
struct Spread {
    min: f64,
    mean: f64,
    max: f64,
    deviation: f64,
}

impl Rates {
    pub(crate) fn of(statistics: &Statistics) -> Self {
        let rates = match *statistics {
            Statistics::NotMeasured => None,
            Statistics::Measured {
                min,
                mean,
                max,
                deviation,
            } => Some(Spread {
                min: rounded(min),
                mean: rounded(mean),
                max: rounded(max),
                deviation: rounded(deviation),
            }),
        };
        Self { rates }
    }
}
