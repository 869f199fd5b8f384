//! The runner of property tests.

use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseResult, TestError, TestRunner};

/// Checks a property of `n_cases` random values, or of `PROPTEST_CASES` values if that variable is
/// set.
///
/// # Panics
///
/// Panics if the property does not hold, and prints the smallest counterexample found.
#[track_caller]
pub(crate) fn holds_for_all<S>(
    values: S,
    n_cases: u32,
    property: impl Fn(&S::Value) -> TestCaseResult,
) where
    S: Strategy,
    S::Value: Debug,
{
    let mut config = Config {
        // A counterexample becomes a test of its own, whose name says what went wrong.
        failure_persistence: None,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = n_cases;
    }
    match TestRunner::new(config).run(&values, |value| property(&value)) {
        Ok(()) => {}
        Err(TestError::Fail(why, value)) => panic!("{why}\n{value:#?}"),
        Err(error) => panic!("{error}"),
    }
}
