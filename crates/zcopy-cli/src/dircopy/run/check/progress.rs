//! The progress of a verification.

use std::time::Duration;

use crate::common::progress::json::rounded;
use crate::common::progress::throughput::Throughput;
use crate::dircopy::manifest::check::Progress;
use crate::dircopy::manifest::check::event::Event;
use crate::dircopy::reporter::progress_line::{self, ProgressLine};

/// The progress of a verification at one moment.
pub(super) struct State {
    files: u64,
    bytes: u64,
    failed: u64,
    bytes_per_second: f64,
    total_files: u64,
    total_bytes: u64,
    total_is_final: bool,
    /// The time that the rest takes at this rate. `None` if the rate is 0.
    remaining: Option<Duration>,
}

impl State {
    pub(super) fn read(progress: &Progress, throughput: &Throughput) -> Self {
        // This is read first: if it is true, the numbers are final.
        let total_is_final = progress.total().is_complete();
        let total_bytes = progress.total().bytes();
        Self {
            files: progress.files(),
            bytes: progress.bytes(),
            failed: progress.failed(),
            bytes_per_second: throughput.average(),
            total_files: progress.total().files(),
            total_bytes,
            total_is_final,
            remaining: throughput.remaining(Some(total_bytes)),
        }
    }

    /// The state as a line of at most `columns` columns.
    pub(super) fn line(&self, columns: usize) -> String {
        let total = progress_line::Total {
            bytes: self.total_bytes,
            files: self.total_files,
            is_final: self.total_is_final,
        };
        let line = ProgressLine {
            bytes: self.bytes,
            files: self.files,
            bytes_per_second: self.bytes_per_second,
            total: (self.total_files > 0).then_some(total),
            remaining: self.remaining,
            failed: self.failed,
            current: None,
        };
        line.text(columns)
    }

    pub(super) fn event(&self, elapsed: Duration) -> Event<'static> {
        Event::Progress {
            files: self.files,
            bytes: self.bytes,
            bytes_per_second: rounded(self.bytes_per_second),
            total_bytes: self.total_bytes,
            total_files: self.total_files,
            total_is_final: self.total_is_final,
            seconds: rounded(elapsed.as_secs_f64()),
            failed: self.failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: State = State {
        files: 12,
        bytes: 3 << 20,
        failed: 0,
        bytes_per_second: 1.5e6,
        total_files: 0,
        total_bytes: 0,
        total_is_final: false,
        remaining: None,
    };

    #[test]
    fn the_line_has_files_bytes_rate_and_failures() {
        assert_eq!(STATE.line(80), "12 files, 3.00MiB, 1.43MiB/s");
        let failed = State { failed: 2, ..STATE };
        assert_eq!(failed.line(80), "12 files, 3.00MiB, 1.43MiB/s, 2 failed");
        let one = State { files: 1, ..STATE };
        assert!(one.line(80).starts_with("1 file, "));
    }

    #[test]
    fn the_line_has_the_total_and_the_time_left() {
        let found = State {
            total_files: 40,
            total_bytes: 6 << 20,
            ..STATE
        };
        let words = "3.00MiB of 6.00MiB+, 1.43MiB/s, 12 of 40+ files";
        assert_eq!(found.line(80), words);
        let all = State {
            total_is_final: true,
            remaining: Some(Duration::from_secs(2)),
            failed: 1,
            ..found
        };
        assert_eq!(
            all.line(80),
            "3.00MiB of 6.00MiB, 50%, 1.43MiB/s, 12 of 40 files, ETA 0:00:02, 1 failed"
        );
    }

    #[test]
    fn the_line_fits_into_any_width() {
        let found = State {
            total_files: 40,
            ..STATE
        };
        for columns in 0..40 {
            assert!(STATE.line(columns).len() <= columns);
            assert!(found.line(columns).len() <= columns);
        }
    }

    #[test]
    fn the_event_has_the_same() {
        assert_eq!(
            STATE.event(Duration::from_millis(2500)).line(),
            "{\"event\":\"progress\",\"files\":12,\"bytes\":3145728,\
             \"bytes_per_second\":1500000.0,\
             \"total_bytes\":0,\"total_files\":0,\"total_is_final\":false,\"seconds\":2.5,\"failed\":0}\n"
        );
    }
}
