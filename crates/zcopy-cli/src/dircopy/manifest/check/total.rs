//! The total of a verification.

use std::time::Duration;

use serde::Serialize;

use super::Outcome;
use super::counts::Counts;
use crate::common::progress::json::rounded;
use crate::dircopy::reporter::summary::{State, per_second, rate, size, time};

/// The total of a verification.
#[derive(Debug, Serialize)]
pub(crate) struct Total {
    state: State,
    files: u64,
    /// The bytes that were read.
    bytes: u64,
    seconds: f64,
    bytes_per_second: f64,
    #[serde(flatten)]
    counts: Counts,
    /// Manifests and journals that are damaged.
    damaged_manifests: u64,
    /// The number of files that failed, and of all other errors.
    failed: u64,
    #[serde(skip)]
    elapsed: Duration,
}

/// The number of errors besides those of files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ErrorCounts {
    /// Manifests and journals that are damaged.
    pub(crate) damaged_manifests: u64,
    /// Trees and lists that cannot be read.
    pub(crate) others: u64,
}

impl Total {
    pub(crate) fn new(
        outcome: Outcome,
        counts: Counts,
        errors: ErrorCounts,
        bytes: u64,
        elapsed: Duration,
    ) -> Self {
        Self {
            state: match outcome {
                Outcome::Verified => State::Done,
                Outcome::Failed => State::Failed,
            },
            files: counts.files(),
            bytes,
            seconds: rounded(elapsed.as_secs_f64()),
            bytes_per_second: rounded(per_second(bytes, elapsed)),
            damaged_manifests: errors.damaged_manifests,
            failed: counts.failed() + errors.damaged_manifests + errors.others,
            counts,
            elapsed,
        }
    }

    /// The total of a verification that could not begin.
    pub(crate) fn of_nothing() -> Self {
        Self::new(
            Outcome::Failed,
            Counts::default(),
            ErrorCounts::default(),
            0,
            Duration::ZERO,
        )
    }

    /// Adds errors from before or after the verification.
    pub(crate) fn add_errors(&mut self, n_errors: u64) {
        self.failed += n_errors;
        if n_errors > 0 {
            self.state = State::Failed;
        }
    }

    /// Whether everything was verified.
    pub(crate) fn is_success(&self) -> bool {
        self.state == State::Done
    }

    /// A signal has ended the verification early.
    pub(crate) fn set_interrupted(&mut self) {
        self.state = State::Interrupted;
    }

    /// The total in two lines of text. Empty if no file was listed.
    pub(crate) fn lines(&self) -> Vec<String> {
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
        let damaged = match self.damaged_manifests {
            0 => String::new(),
            1 => ", 1 damaged manifest".to_owned(),
            n => format!(", {n} damaged manifests"),
        };
        let (time, rate) = (time(self.elapsed), rate(self.bytes_per_second));
        vec![
            format!("{files} file{plural}, {size} in {time}, {rate}"),
            counts.words() + &damaged,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dircopy::manifest::check::event::Event;

    fn total(counts: Counts) -> Total {
        total_with(counts, 0)
    }

    fn total_with(counts: Counts, damaged_manifests: u64) -> Total {
        let errors = ErrorCounts {
            damaged_manifests,
            others: 1,
        };
        let elapsed = Duration::from_millis(1500);
        Total::new(Outcome::Failed, counts, errors, 3 << 20, elapsed)
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
    fn damaged_manifests_are_told_if_there_are_any() {
        for (n, words) in [(1, ", 1 damaged manifest"), (2, ", 2 damaged manifests")] {
            let total = total_with(Counts::example([7, 0, 0, 0, 0]), n);
            assert!(total.lines()[1].ends_with(words));
            assert_eq!(total.failed, n + 1);
        }
    }

    #[test]
    fn the_state_is_that_of_the_worst_error_and_of_a_signal() {
        let counts = Counts::example([1, 0, 0, 0, 0]);
        let errors = ErrorCounts::default();
        let mut total = Total::new(Outcome::Verified, counts, errors, 0, Duration::ZERO);
        total.add_errors(0);
        assert_eq!((total.state, total.failed), (State::Done, 0));
        total.add_errors(2);
        assert_eq!((total.state, total.failed), (State::Failed, 2));
        total.set_interrupted();
        assert_eq!(total.state, State::Interrupted);
        assert_eq!(Total::of_nothing().state, State::Failed);
    }

    #[test]
    fn the_json_has_the_same() {
        let total = total(Counts::example([7, 1, 2, 3, 4]));
        assert_eq!(
            Event::Summary(&total).line(),
            "{\"event\":\"summary\",\"state\":\"failed\",\"files\":13,\"bytes\":3145728,\"seconds\":1.5,\
             \"bytes_per_second\":2097152.0,\"matching\":7,\"differing\":1,\"missing\":2,\
             \"unreadable\":3,\"unlisted\":0,\"damaged\":0,\"malformed\":4,\"damaged_manifests\":0,\"failed\":7}\n"
        );
    }
}
