//! The runner of property tests.

use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseResult, TestError, TestRunner};

/// Checks a property of `n_cases` random values, or of as many as `PROPTEST_CASES` says.
///
/// # Panics
///
/// If the property does not hold; prints the smallest value found for which it does not.
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
        // A value for which it fails becomes a test of its own, with a name that says what went
        // wrong.
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
