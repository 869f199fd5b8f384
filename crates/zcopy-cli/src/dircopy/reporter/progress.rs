//! The progress of a copy and its rate.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::console::RATE_WINDOW;
use super::progress_line::{self, ProgressLine};
use crate::common::progress::json::rounded;
use crate::common::progress::throughput::Throughput;
use crate::dircopy::counts::Counts;
use crate::dircopy::walk::prescan::Total;

/// Measures the progress, and remembers the last seconds for the rate.
#[derive(Debug)]
pub(crate) struct Gauge<'a> {
    counts: &'a Counts,
    total: &'a Total,
    throughput: Throughput,
}

impl<'a> Gauge<'a> {
    /// Make it when the copy begins.
    pub(crate) fn new(counts: &'a Counts, total: &'a Total) -> Self {
        Self {
            counts,
            total,
            throughput: Throughput::over(RATE_WINDOW),
        }
    }

    /// The progress after `elapsed`.
    pub(crate) fn read(&mut self, elapsed: Duration) -> Progress {
        let total_is_final = self.total.is_complete();
        let (bytes, files) = (self.counts.bytes.get(), self.counts.files.get());
        self.throughput.sample(elapsed, bytes);
        // Files may have grown since they were counted.
        let total_bytes = self.total.bytes().max(bytes);
        let total_files = self.total.files().max(files);
        Progress {
            bytes,
            files,
            bytes_per_second: rounded(self.throughput.average()),
            total_bytes,
            total_files,
            total_is_final,
            seconds: rounded(elapsed.as_secs_f64()),
            remaining: self.throughput.remaining(Some(total_bytes)),
            failed: self.counts.failed.get(),
            current: None,
        }
    }
}

/// The progress of a copy at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Progress {
    pub(super) bytes: u64,
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
    pub(super) failed: u64,
    /// A file under way.
    #[serde(skip)]
    pub(super) current: Option<PathBuf>,
}

impl Progress {
    /// The progress as a line of at most `columns` columns.
    pub(crate) fn line(&self, columns: usize) -> String {
        let line = ProgressLine {
            bytes: self.bytes,
            files: self.files,
            bytes_per_second: self.bytes_per_second,
            total: Some(progress_line::Total {
                bytes: self.total_bytes,
                files: self.total_files,
                is_final: self.total_is_final,
            }),
            remaining: self.remaining,
            failed: self.failed,
            current: self.current.as_deref(),
        };
        line.text(columns)
    }
}

#[cfg(test)]
mod tests;
