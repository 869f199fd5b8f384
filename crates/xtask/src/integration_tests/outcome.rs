//! The outcome of the tests of a program.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use super::Tests;

/// The results of the tests of a program.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The exit status of the program was 0.
    has_succeeded: bool,
    passed: BTreeSet<String>,
    ignored: usize,
    failed: BTreeSet<String>,
    not_ended: BTreeSet<String>,
    /// The names of tests that left out something, each with the reason.
    skips: BTreeSet<String>,
    seconds: u64,
}

impl Outcome {
    /// Reads what the program has printed, and its log (`--logfile`).
    pub(crate) fn read(
        tests: &Tests,
        messages: &str,
        log: &str,
        has_succeeded: bool,
        elapsed: Duration,
    ) -> Self {
        let mut outcome = Self {
            has_succeeded,
            not_ended: tests.names.iter().cloned().collect(),
            seconds: elapsed.as_secs(),
            ..Self::default()
        };
        for line in messages.lines() {
            if let Some((_, reason)) = line.split_once("SKIPPED: ") {
                outcome.skips.insert(reason.to_owned());
            }
        }
        for line in log.lines() {
            let Some((result, name)) = line.rsplit_once(' ') else {
                continue;
            };
            if outcome.not_ended.remove(name) {
                match result {
                    "ok" => drop(outcome.passed.insert(name.to_owned())),
                    _ if result.starts_with("ignored") => outcome.ignored += 1,
                    _ => drop(outcome.failed.insert(name.to_owned())),
                }
            }
        }
        outcome
    }

    /// Every test has ended, and none has failed, nor the program behind them.
    pub(crate) fn is_right(&self) -> bool {
        self.has_succeeded && self.failed.is_empty() && self.not_ended.is_empty()
    }

    /// Cells of a table. A test that passed but left out a part, or all, is counted apart.
    pub(crate) fn cells(&self) -> String {
        let names = self.skips.iter().filter_map(|skip| skip.split_once(": "));
        let with_skips: BTreeSet<_> = names
            .map(|(name, _)| name)
            .filter(|name| self.passed.contains(*name))
            .collect();
        format!(
            "{} | {} | {} | {} | {} | {} |",
            self.passed.len() - with_skips.len(),
            with_skips.len(),
            self.failed.len(),
            self.not_ended.len(),
            self.ignored,
            self.seconds
        )
    }

    /// The names of tests that failed or did not end, and the reasons of skips.
    pub(crate) fn details(&self, surroundings: &str) -> String {
        let mut text = String::new();
        let lists = [
            ("failed", &self.failed),
            ("not ended", &self.not_ended),
            ("skipped", &self.skips),
        ];
        for (heading, names) in lists {
            for name in names {
                let _ = writeln!(text, "- {surroundings}: {heading}: {name}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(messages: &str, log: &str) -> Outcome {
        let tests = Tests {
            package: "zcopy".to_owned(),
            program: "it".into(),
            dir: ".".into(),
            names: ["a::b", "a::c"].map(str::to_owned).into(),
        };
        let has_succeeded = !log.contains("failed");
        Outcome::read(&tests, messages, log, has_succeeded, Duration::from_secs(7))
    }

    #[test]
    fn tests_that_all_pass_are_right() {
        let outcome = read("", "ok a::b\nok a::c\n");
        assert!(outcome.is_right(), "{outcome:?}");
        assert_eq!(outcome.cells(), "2 | 0 | 0 | 0 | 0 | 7 |");
    }

    #[test]
    fn a_test_that_left_out_a_part_is_counted_once_and_apart() {
        let said = "test a::b ... SKIPPED: a::b: no xfs\nSKIPPED: a::b: no btrfs\n";
        let outcome = read(said, "ok a::b\nok a::c\n");
        assert!(outcome.is_right(), "{outcome:?}");
        assert_eq!(outcome.cells(), "1 | 1 | 0 | 0 | 0 | 7 |");
        let details = "- 6.1: skipped: a::b: no btrfs\n- 6.1: skipped: a::b: no xfs\n";
        assert_eq!(outcome.details("6.1"), details);
    }

    #[test]
    fn a_test_without_a_result_is_named() {
        let outcome = read("Killed\n", "ok a::b\n");
        assert!(!outcome.is_right());
        assert_eq!(outcome.details("6.1"), "- 6.1: not ended: a::c\n");
    }

    #[test]
    fn a_failure_and_a_skip_are_named() {
        let outcome = read(
            "...SKIPPED: no xfs\n",
            "failed a::b\nignored: needs root a::c\n",
        );
        assert!(!outcome.is_right());
        let details = "- 6.1: failed: a::b\n- 6.1: skipped: no xfs\n";
        assert_eq!(outcome.details("6.1"), details);
    }

    #[test]
    fn a_program_that_fails_behind_its_last_test_is_not_right() {
        let mut outcome = read("", "ok a::b\nok a::c\n");
        outcome.has_succeeded = false;
        assert!(!outcome.is_right());
    }
}
