//! What the tests of a guest say on its console.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The results of the tests on one kernel.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The test program said that all went well.
    ended_well: bool,
    passed: usize,
    ignored: usize,
    failed: BTreeSet<String>,
    not_ended: BTreeSet<String>,
    /// The reasons for which tests leave out parts.
    skips: BTreeSet<String>,
    pub(super) seconds: u64,
}

impl Outcome {
    /// Reads the console of a guest that was to run the `expected` tests. `None` if it did not
    /// come to them.
    pub(super) fn read<'a>(console: &str, expected: impl Iterator<Item = &'a str>) -> Option<Self> {
        let (_, said) = console.split_once("\nBEGIN ")?;
        let (messages, results) = said.rsplit_once("\nRESULTS\n").unwrap_or((said, ""));
        let mut outcome = Self {
            not_ended: expected.map(str::to_owned).collect(),
            ..Self::default()
        };
        for line in messages.lines() {
            if let Some((_, reason)) = line.split_once("SKIPPED: ") {
                outcome.skips.insert(reason.to_owned());
            }
        }
        for line in results.lines() {
            let Some((result, name)) = line.split_once(' ') else {
                continue;
            };
            if (result, name) == ("END", "0") {
                outcome.ended_well = true;
            } else if outcome.not_ended.remove(name) {
                match result {
                    "ok" => outcome.passed += 1,
                    "ignored" => outcome.ignored += 1,
                    _ => drop(outcome.failed.insert(name.to_owned())),
                }
            }
        }
        Some(outcome)
    }

    /// Every test has ended, and none has failed.
    pub(super) fn is_right(&self) -> bool {
        self.ended_well && self.failed.is_empty() && self.not_ended.is_empty()
    }

    /// Cells of a table.
    pub(super) fn cells(&self) -> String {
        format!(
            "{} | {} | {} | {} | {} |",
            self.passed,
            self.failed.len(),
            self.not_ended.len(),
            self.ignored,
            self.seconds
        )
    }

    /// The names of tests that failed or did not end, and the reasons of skips.
    pub(super) fn details(&self, release: &str) -> String {
        let mut text = String::new();
        let lists = [
            ("failed", &self.failed),
            ("not ended", &self.not_ended),
            ("skipped", &self.skips),
        ];
        for (heading, names) in lists {
            for name in names {
                let _ = writeln!(text, "- {release}: {heading}: {name}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(console: &str) -> Outcome {
        Outcome::read(console, ["a::b", "a::c"].into_iter()).unwrap()
    }

    #[test]
    fn tests_that_all_pass_are_right() {
        let outcome = read("\nBEGIN 6.1\nmessages\nRESULTS\nok a::b\nok a::c\nEND 0\n");
        assert!(outcome.is_right(), "{outcome:?}");
        assert_eq!(outcome.cells(), "2 | 0 | 0 | 0 | 0 |");
    }

    #[test]
    fn a_test_without_a_result_is_named() {
        let outcome = read("\nBEGIN 6.1\nKilled\nRESULTS\nok a::b\nEND 137\n");
        assert!(!outcome.is_right());
        assert_eq!(outcome.details("6.1"), "- 6.1: not ended: a::c\n");
        // The guest itself was ended.
        let outcome = read("\nBEGIN 6.1\ntest a::b ... ok\n");
        assert_eq!(outcome.cells(), "0 | 0 | 2 | 0 | 0 |");
    }

    #[test]
    fn a_failure_and_a_skip_are_named() {
        let outcome = read(
            "\nBEGIN 6.1\n...SKIPPED: no xfs\n\nRESULTS\nfailed a::b\nignored a::c\nEND 101\n",
        );
        assert!(!outcome.is_right());
        let details = "- 6.1: failed: a::b\n- 6.1: skipped: no xfs\n";
        assert_eq!(outcome.details("6.1"), details);
    }

    #[test]
    fn a_guest_that_did_not_come_to_its_tests_has_no_outcome() {
        assert!(Outcome::read("the root cannot be mounted\n", ["a"].into_iter()).is_none());
    }
}
