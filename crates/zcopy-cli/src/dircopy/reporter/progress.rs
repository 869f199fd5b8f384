//! The progress of a copy and its rate.

use std::time::Duration;

use serde::Serialize;

use crate::dircopy::counts::Counts;
use crate::dircopy::walk::prescan::Total;
use crate::history::History;
use crate::json::rounded;
use crate::number::{self, Unit};
use crate::time;

/// The rate is an average over this time: long enough to be readable, short enough to be current.
const WINDOW: Duration = Duration::from_secs(5);

/// Measures the progress, and remembers the last seconds for the rate.
#[derive(Debug)]
pub(crate) struct Gauge<'a> {
    counts: &'a Counts,
    total: &'a Total,
    history: History,
}

impl<'a> Gauge<'a> {
    /// Make it when the copy begins.
    pub(crate) fn new(counts: &'a Counts, total: &'a Total) -> Self {
        Self {
            counts,
            total,
            history: History::over(WINDOW),
        }
    }

    /// The progress after `elapsed`.
    pub(crate) fn read(&mut self, elapsed: Duration) -> Progress {
        let total_is_final = self.total.is_complete();
        let (bytes, files) = (self.counts.bytes.get(), self.counts.files.get());
        self.history.sample(elapsed, bytes);
        // Files may have grown since they were counted.
        let total_bytes = self.total.bytes().max(bytes);
        let total_files = self.total.files().max(files);
        Progress {
            bytes,
            files,
            bytes_per_second: rounded(self.history.average()),
            total_bytes,
            total_files,
            total_is_final,
            seconds: rounded(elapsed.as_secs_f64()),
            remaining: self.history.remaining(Some(total_bytes)),
            failed: self.counts.failed.get(),
        }
    }
}

/// The progress of a copy at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Progress {
    bytes: u64,
    files: u64,
    /// The average over the last seconds.
    bytes_per_second: f64,
    total_bytes: u64,
    total_files: u64,
    /// Whether all files have been counted.
    total_is_final: bool,
    /// Seconds since the copy began.
    seconds: f64,
    /// How long the rest takes at this rate. None, if the rate is 0.
    #[serde(skip)]
    remaining: Option<Duration>,
    #[serde(skip)]
    failed: u64,
}

impl Progress {
    /// The progress as a line of at most `columns` columns.
    pub(crate) fn line(&self, columns: usize) -> String {
        let size = |bytes| number::amount(bytes, Unit::Bytes, false);
        let (more, eta) = if self.total_is_final {
            ("", format!(", {}", time::eta(self.remaining)))
        } else {
            ("+", String::new())
        };
        let failed = match self.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let mut line = format!(
            "{} of {}{more}, {}, {} of {}{more} files{eta}{failed}",
            size(self.bytes),
            size(self.total_bytes),
            number::rate(self.bytes_per_second, Unit::Bytes, false),
            self.files,
            self.total_files,
        );
        // The line is ASCII, so that each byte is a column.
        line.truncate(columns);
        line
    }
}

#[cfg(test)]
mod tests;
