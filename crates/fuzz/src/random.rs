//! Random values, drawn by proptest.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestError, TestRunner};

/// The number of byte strings; `PROPTEST_CASES` sets another one.
const BYTE_STRINGS: u32 = 500;

/// Checks a property of random values.
#[track_caller]
pub(crate) fn holds_for_all<S>(
    values: &S,
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
    match TestRunner::new(config).run(values, |value| property(&value)) {
        Ok(()) => {}
        Err(TestError::Fail(why, value)) => panic!("{why}\n{value:#?}"),
        Err(error) => panic!("{error}"),
    }
}

/// Checks a property of random byte strings.
#[track_caller]
pub(crate) fn holds_for_bytes(seeds: &[&[u8]], property: fn(&[u8])) {
    for seed in seeds {
        property(seed);
    }
    holds_for_all(&byte_strings(seeds), BYTE_STRINGS, |Bytes(bytes)| {
        property(bytes);
        Ok(())
    });
}

/// A byte string that is shown as one.
struct Bytes(Vec<u8>);

impl Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// Byte strings, and seeds in which a few bytes are replaced by others.
fn byte_strings(seeds: &[&[u8]]) -> impl Strategy<Value = Bytes> + use<> {
    let mut all: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.to_vec()).collect();
    all.push(Vec::new());
    let few = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..8),
        prop::collection::vec(b' '..=b'~', 0..8),
    ];
    let edit = (any::<prop::sample::Index>(), 0..4_usize, few);
    let edits = prop::collection::vec(edit, 0..5);
    let edited = (prop::sample::select(all), edits).prop_map(|(mut bytes, edits)| {
        for (at, n_removed, inserted) in edits {
            let start = at.index(bytes.len() + 1);
            let end = bytes.len().min(start + n_removed);
            bytes.splice(start..end, inserted);
        }
        bytes
    });
    let others = prop::collection::vec(any::<u8>(), 0..500);
    prop_oneof![3 => edited, 1 => others].prop_map(Bytes)
}

#[cfg(all(test, not(fuzzing)))]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "\nb\"\\x80")]
    fn a_counterexample_is_shrunk_and_shown() {
        holds_for_bytes(&[b"abc"], |bytes| assert!(bytes.is_ascii()));
    }

    #[test]
    #[should_panic(expected = "the seed")]
    fn each_seed_is_tried_as_it_is() {
        holds_for_bytes(&[b"a very long seed"], |bytes| {
            assert!(bytes != b"a very long seed", "the seed");
        });
    }

    #[test]
    #[should_panic(expected = "an edited seed")]
    fn seeds_are_tried_with_other_bytes() {
        holds_for_bytes(&[b"a very long seed"], |bytes| {
            let is_edited = bytes.starts_with(b"a very") && bytes != b"a very long seed";
            assert!(!is_edited, "an edited seed");
        });
    }
}
