//! The total of a verification.

use std::time::Duration;

use serde::Serialize;

use super::report::Counts;
use crate::dircopy::summary::{per_second, rate, size, time};
use crate::json::rounded;

/// The total of a verification.
#[derive(Debug, Serialize)]
pub(in crate::dircopy) struct Total {
    files: u64,
    /// The bytes that were read.
    bytes: u64,
    seconds: f64,
    bytes_per_second: f64,
    #[serde(flatten)]
    counts: Counts,
    /// The number of files that failed, and of trees and lists that could not be read.
    failed: u64,
    #[serde(skip)]
    elapsed: Duration,
}

impl Total {
    pub(super) fn new(counts: Counts, n_errors: u64, bytes: u64, elapsed: Duration) -> Self {
        Self {
            files: counts.files(),
            bytes,
            seconds: rounded(elapsed.as_secs_f64()),
            bytes_per_second: rounded(per_second(bytes, elapsed)),
            failed: counts.failed() + n_errors,
            counts,
            elapsed,
        }
    }

    /// The total in two lines of text. Empty if no file was listed.
    pub(super) fn lines(&self) -> Vec<String> {
        let Self {
            files,
            bytes,
            counts,
            ..
        } = self;
        if *files == 0 {
            return Vec::new();
        }
        let plural = if *files == 1 { "" } else { "s" };
        let size = size(*bytes);
        let (time, rate) = (time(self.elapsed), rate(self.bytes_per_second));
        vec![
            format!("{files} file{plural}, {size} in {time}, {rate}"),
            counts.words(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dircopy::manifest::event::Event;

    fn total(counts: Counts) -> Total {
        Total::new(counts, 1, 3 << 20, Duration::from_millis(1500))
    }

    #[test]
    fn the_text_has_files_bytes_time_rate_and_each_result() {
        let counts = Counts::example([7, 1, 2, 3, 4]);
        assert_eq!(
            total(counts).lines(),
            [
                "13 files, 3145728 bytes (3.00MiB) in 1.500 s, 2.00MiB/s",
                "7 matching, 1 differing, 2 missing, 3 unreadable",
            ]
        );
        let one = total(Counts::example([1, 0, 0, 0, 0])).lines();
        assert!(one[0].starts_with("1 file, "), "{one:?}");
        assert!(total(Counts::example([0, 0, 0, 0, 4])).lines().is_empty());
    }

    #[test]
    fn the_json_has_the_same() {
        let total = total(Counts::example([7, 1, 2, 3, 4]));
        assert_eq!(
            Event::Summary(&total).line(),
            "{\"event\":\"summary\",\"files\":13,\"bytes\":3145728,\"seconds\":1.5,\
             \"bytes_per_second\":2097152.0,\"matching\":7,\"differing\":1,\"missing\":2,\
             \"unreadable\":3,\"unlisted\":0,\"damaged\":0,\"malformed\":4,\"failed\":7}\n"
        );
    }
}
