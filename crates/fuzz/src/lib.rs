//! Runs properties on random values, and on inputs of a fuzzer.
//!
//! A property is a unit test. It stands beside the code that it tests, where it reaches private
//! items, so that no interface has to show them. It calls one of two functions:
//! [`holds_for_all`] takes values of a strategy of proptest, and [`holds_for_bytes`] takes bytes,
//! for parsers.
//!
//! `cargo test` draws some hundred random values for each of them. `cargo xtask fuzz` builds the same
//! tests with `cfg(fuzzing)` and the instrumentation of libFuzzer, and runs one of them under
//! libFuzzer, which looks for inputs that reach new code. For a value of a strategy the input is the
//! seed of the random numbers that the value is made of.

use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::TestCaseResult;

#[cfg(fuzzing)]
mod libfuzzer;
#[cfg_attr(fuzzing, allow(dead_code, reason = "libFuzzer draws instead"))]
mod random;

/// Checks a property of `n_cases` random values, or of `PROPTEST_CASES` values if that variable is
/// set.
///
/// # Panics
///
/// Panics if the property does not hold, and prints the smallest counterexample found.
#[track_caller]
pub fn holds_for_all<S>(
    values: S,
    n_cases: u32,
    property: impl Fn(&S::Value) -> TestCaseResult + 'static,
) where
    S: Strategy + 'static,
    S::Value: Debug,
{
    #[cfg(not(fuzzing))]
    random::holds_for_all(&values, n_cases, property);
    #[cfg(fuzzing)]
    {
        let _ = n_cases;
        libfuzzer::holds_for_all(values, property);
    }
}

/// Checks a property of byte strings. These are the seeds, the seeds with some bytes replaced, and
/// random bytes. A property that does not hold has to panic.
///
/// # Panics
///
/// Panics if the property panics, and prints the smallest counterexample found.
#[track_caller]
pub fn holds_for_bytes(seeds: &[&[u8]], property: fn(&[u8])) {
    #[cfg(not(fuzzing))]
    random::holds_for_bytes(seeds, property);
    #[cfg(fuzzing)]
    libfuzzer::holds_for_bytes(seeds, property);
}
