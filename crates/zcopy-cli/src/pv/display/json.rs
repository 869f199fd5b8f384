//! Progress as objects in JSON, one per line.

use std::borrow::Cow;

use serde::Serialize;

use crate::common::progress::json::rounded;
use crate::common::progress::throughput::Statistics;
use crate::pv::display::event;
use crate::pv::display::reading::Reading;
use crate::pv::ending::{Ending, State};

/// The progress of a transfer at one moment.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// The side of a command: `in` or `out`.
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<&'static str>,
    /// Seconds since the beginning.
    elapsed: f64,
    /// The number of bytes that have arrived.
    bytes: u64,
    /// The number of lines that have arrived, if lines are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<u64>,
    /// The total number of bytes, or lines.
    total: Option<u64>,
    percent: Option<f64>,
    /// Counted units per second.
    rate: f64,
    average: f64,
    /// Seconds left.
    eta: Option<f64>,
    /// The strategy that moves the bytes.
    route: Option<String>,
    over: bool,
    /// The state at the end, in the last object.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    /// The first error message.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// The digest of all bytes, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<&'a str>,
}

impl<'a> Line<'a> {
    pub(crate) fn new(
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

    /// Sets the side of the command.
    pub(crate) fn side(self, side: Option<&'static str>) -> Self {
        Self { side, ..self }
    }

    /// Makes this the last object, which tells how the transfer ended.
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

/// An input that has ended.
#[derive(Debug, Serialize)]
pub(crate) struct File<'a> {
    #[serde(rename = "file")]
    name: Cow<'a, str>,
    /// The number of bytes, if bytes are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// The number of lines, if lines are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<u64>,
    /// The duration in seconds.
    elapsed: f64,
    /// Counted units per second.
    rate: f64,
}

impl<'a> File<'a> {
    pub(crate) fn new(file: &'a event::FinishedInput, rate: f64, counts_bytes: bool) -> Self {
        Self {
            // JSON holds only UTF-8.
            name: file.name.to_string_lossy(),
            bytes: counts_bytes.then_some(file.counted),
            lines: (!counts_bytes).then_some(file.counted),
            elapsed: rounded(file.took.as_secs_f64()),
            rate: rounded(rate),
        }
    }
}

/// The rates of all intervals, in bytes per second. `None` if the transfer ended before a rate
/// could be measured.
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
    pub(crate) fn new(statistics: &Statistics) -> Self {
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
