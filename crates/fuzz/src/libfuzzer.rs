//! The driver of libFuzzer.

#![allow(unsafe_code, reason = "the interface of libFuzzer is that of C")]

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::fmt::Debug;
use std::path::Path;

// It links libFuzzer.
use libfuzzer_sys as _;
use proptest::strategy::{Strategy, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};

/// The variable that holds the arguments of libFuzzer, one on each line. The first argument is the
/// directory of the inputs. The driver writes the seeds there.
const ARGUMENTS: &str = "ZCOPY_LIBFUZZER";

thread_local! {
    /// The property. libFuzzer passes no context to [`call`], and calls it in its own thread.
    static TARGET: RefCell<Option<Box<dyn Fn(&[u8])>>> = const { RefCell::new(None) };
}

unsafe extern "C" {
    fn LLVMFuzzerRunDriver(
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        target: extern "C" fn(*const u8, usize) -> c_int,
    ) -> c_int;
}

/// Checks a property of the values that the inputs of libFuzzer stand for.
pub(crate) fn holds_for_all<S>(values: S, property: impl Fn(&S::Value) -> TestCaseResult + 'static)
where
    S: Strategy + 'static,
    S::Value: Debug,
{
    let target = move |bytes: &[u8]| {
        if let Some(value) = generate(&values, bytes)
            && let Err(why) = property(&value)
        {
            panic!("{why}\n{value:#?}");
        }
    };
    run(&[], Box::new(target));
}

/// Checks a property of the inputs of libFuzzer.
pub(crate) fn holds_for_bytes(seeds: &[&[u8]], property: fn(&[u8])) {
    run(seeds, Box::new(property));
}

/// Generates the value that an input stands for. `None` if the strategy rejects its random numbers.
///
/// The input is the seed of random numbers, not the numbers themselves: at each union of strategies
/// proptest gives half of the remaining numbers to an alternative, so that none remain soon, and
/// then returns zeros, of which `rand` rejects each for some ranges, without end.
fn generate<S: Strategy>(values: &S, input: &[u8]) -> Option<S::Value> {
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    let mut seed = [0; 32];
    let len = input.len().min(seed.len());
    seed[..len].copy_from_slice(&input[..len]);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let tree = values.new_tree(&mut runner).ok()?;
    Some(tree.current())
}

/// Runs a target as long as the arguments say. libFuzzer ends the process when it has finished.
fn run(seeds: &[&[u8]], target: Box<dyn Fn(&[u8])>) {
    let Ok(arguments) = std::env::var(ARGUMENTS) else {
        panic!("{ARGUMENTS} is not set: `cargo xtask fuzz` sets it");
    };
    let corpus = Path::new(arguments.lines().next().unwrap_or("."));
    for (index, seed) in seeds.iter().enumerate() {
        let file = corpus.join(format!("seed-{index}"));
        if let Err(error) = std::fs::write(&file, seed) {
            panic!("{}: {error}", file.display());
        }
    }
    TARGET.set(Some(target));
    let arguments = std::iter::once("libfuzzer").chain(arguments.lines());
    let arguments = arguments.map(|argument| CString::new(argument).unwrap_or_default());
    let arguments: Vec<_> = arguments.map(CString::into_raw).collect();
    let mut argc = arguments.len() as c_int;
    let mut argv = arguments.leak().as_mut_ptr();
    // SAFETY: `argv` points to `argc` strings that end in NUL. They are never freed, since libFuzzer
    // keeps them until the process ends.
    let status = unsafe { LLVMFuzzerRunDriver(&raw mut argc, &raw mut argv, call) };
    assert_eq!(status, 0, "libFuzzer failed");
}

/// A panic in it aborts the process. libFuzzer notices that, and keeps the input.
extern "C" fn call(bytes: *const u8, len: usize) -> c_int {
    let input = if len == 0 {
        &[]
    } else {
        // SAFETY: libFuzzer passes `len` bytes at `bytes`, and changes none of them during the call.
        unsafe { std::slice::from_raw_parts(bytes, len) }
    };
    TARGET.with_borrow(|target| {
        if let Some(target) = target {
            target(input);
        }
    });
    0
}
