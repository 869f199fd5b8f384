//! The passes of tests that run against each mutant.

use std::time::Duration;

use super::Outcome;

/// Unit tests that take more than half of the time of all, and rarely are the only ones to notice a
/// mutant.
const SLOW_UNIT_TESTS: &[&str] = &[
    "a_sink_that_fails_in_any_role",
    "a_stop_leaves_no_gap_in_any_sink",
    "drop_behind::",
    "records::count::tests",
];

/// Integration tests that take nine tenths of the time of all.
const SLOW_INTEGRATION_TESTS: &[&str] = &[
    "bad_blocks::",
    "buffer_and_pipe_sizes::a_step",
    "cache::",
    "direct::unaligned",
    "every_pair::",
    "fan_out::every_source",
    "fan_out::pipe_capacity",
    "fan_out::sink_errors",
    "fuzz::",
    "interference::",
    "lines_keep_their_rate",
    "message_boundaries::a_message",
    "more_than_4_gib",
    "promises::descriptors_unchanged",
    "promises::exact_count",
    "promises::fallback",
    "promises::file_size",
    "promises::full_disk",
    "promises::step_length",
    "repeat::every",
    "repeat::readers",
    "repeat::the_strategy",
    "filter::",
    "sparse::",
    "strategies_table::inspected",
    "urgent_bytes",
];

/// An integration test that a busy machine fails without any mutant.
const TIMED_TESTS: &[&str] = &["lines_keep_their_rate"];

/// Unit tests that draw random cases. With more cases they may notice more.
const RANDOM_UNIT_TESTS: &[&str] = &[
    "properties::",
    "tests::bad_blocks::random::",
    "tests::interference::",
    "tests::records::",
    "repeat::tests::",
    "fast_path::tests::",
    "plan::tests::",
    "engine::io::tests::",
];

/// The passes in their order. A mutant is caught by the first one that fails.
///
/// The last two run what the first two have skipped, and the random tests with more cases.
pub(super) const PASSES: [Pass; 5] = [
    Pass {
        caught: Outcome::CaughtByUnitTests,
        target: "--lib",
        cases: 16,
        timeout_factor: 1,
        selected: &[],
        skipped: SLOW_UNIT_TESTS,
    },
    Pass {
        caught: Outcome::CaughtByIntegrationTests,
        target: "--test=it",
        cases: 16,
        timeout_factor: 1,
        selected: &[],
        skipped: SLOW_INTEGRATION_TESTS,
    },
    Pass {
        caught: Outcome::CaughtByIntegrationTests,
        target: "--test=tokio",
        cases: 16,
        timeout_factor: 1,
        selected: &[],
        skipped: &[],
    },
    Pass {
        caught: Outcome::CaughtByUnitTests,
        target: "--lib",
        cases: 256,
        timeout_factor: 10,
        selected: &[SLOW_UNIT_TESTS, RANDOM_UNIT_TESTS],
        skipped: &[],
    },
    Pass {
        caught: Outcome::CaughtByIntegrationTests,
        target: "--test=it",
        cases: 256,
        timeout_factor: 10,
        selected: &[SLOW_INTEGRATION_TESTS],
        skipped: TIMED_TESTS,
    },
];

/// The tests that one run of `cargo test` runs.
#[derive(Debug)]
pub(super) struct Pass {
    /// The outcome if a test fails.
    pub(super) caught: Outcome,
    /// The argument that names the test program.
    pub(super) target: &'static str,
    /// Cases of each random test.
    pub(super) cases: u32,
    /// Multiplies `--timeout`.
    timeout_factor: u32,
    /// Parts of the names of the tests to run. All tests run if it is empty.
    selected: &'static [&'static [&'static str]],
    /// Parts of the names of the tests to leave out, even if they are selected.
    skipped: &'static [&'static str],
}

impl Pass {
    /// The arguments of the test program. It stops at the first failure.
    pub(super) fn test_args(&self) -> impl Iterator<Item = &'static str> {
        let selected = self.selected.iter().copied().flatten().copied();
        let skipped = self.skipped.iter().flat_map(|test| ["--skip", test]);
        ["-Zunstable-options", "--fail-fast"]
            .into_iter()
            .chain(selected)
            .chain(skipped)
    }

    /// The time after which these tests are given up, in seconds: three times what they take
    /// without a mutant, and not less than `timeout` allows.
    pub(super) fn timeout(&self, timeout: u32, baseline: Duration) -> u64 {
        let least = u64::from(timeout) * u64::from(self.timeout_factor);
        least.max((3 * baseline).as_secs() + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn what_the_first_passes_skip_the_last_ones_run() {
        let [unit, integration, _, later_unit, later_integration] = PASSES;
        for (first, later) in [(unit, later_unit), (integration, later_integration)] {
            assert_eq!(first.target, later.target);
            let args: Vec<_> = later.test_args().collect();
            assert!(first.skipped.iter().all(|test| args.contains(test)));
        }
        let args: Vec<_> = PASSES[4].test_args().collect();
        assert!(args.ends_with(&["--skip", "lines_keep_their_rate"]));
    }

    /// Every Rust file below a directory.
    fn rust_files(dir: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                rust_files(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }

    #[test]
    fn every_module_with_random_tests_is_selected() {
        let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zcopy");
        let mut files = Vec::new();
        rust_files(&library.join("src"), &mut files);
        let mut n_random = 0;
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            if !text.contains("holds_for_all(") {
                continue;
            }
            let module = file.strip_prefix(library.join("src")).unwrap();
            let module = module.with_extension("").display().to_string();
            let module = format!("{}::", module.replace('/', "::"));
            let is_selected = RANDOM_UNIT_TESTS.iter().any(|test| module.contains(test));
            assert!(is_selected, "{module}");
            n_random += 1;
        }
        assert!(n_random >= RANDOM_UNIT_TESTS.len());
    }

    #[test]
    fn a_busy_machine_gets_three_times_as_long_as_its_baseline() {
        let [quick, _, _, thorough, _] = &PASSES;
        assert_eq!(quick.timeout(120, Duration::from_secs(10)), 120);
        assert_eq!(quick.timeout(120, Duration::from_millis(50_500)), 152);
        assert_eq!(thorough.timeout(120, Duration::from_secs(100)), 1200);
    }
}
