//! Random transfers on the real kernel, each compared with a plain loop of read and write.
//!
//! Each test draws a few hundred cases, or with `ZCOPY_FUZZ_SECONDS=3600` draws cases for an hour.
//! A case that fails prints its seed; `ZCOPY_FUZZ_SEED` with that seed runs this case alone. With
//! `PROPTEST_RNG_SEED` the cases are the same at each run.

mod fan_outs;
mod files;
mod filters;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant, SystemTime};

use crate::concurrency::bounded;
use crate::random::Random;

fn number_from_env(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} must be a number, not {value}")))
}

/// Draws and runs `n_cases` cases of the test with this name, or draws cases for
/// `ZCOPY_FUZZ_SECONDS` if that is set.
fn fuzz(name: &str, n_cases: u64, case: fn(&mut Random)) {
    if let Some(seed) = number_from_env("ZCOPY_FUZZ_SEED") {
        run(name, seed, case);
        return;
    }
    let first = number_from_env("PROPTEST_RNG_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.unwrap().as_micros() as u64
    });
    let seconds = number_from_env("ZCOPY_FUZZ_SECONDS").map(Duration::from_secs);
    let start = Instant::now();
    for n in 0.. {
        let is_enough = match seconds {
            Some(seconds) => start.elapsed() >= seconds,
            None => n == n_cases,
        };
        if is_enough {
            break;
        }
        run(name, first.wrapping_add(n), case);
    }
}

fn run(name: &str, seed: u64, case: fn(&mut Random)) {
    let run = || bounded(move || case(&mut Random::new(seed)));
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        eprintln!(
            "to run this case again: \
             ZCOPY_FUZZ_SEED={seed} cargo test -p zcopy --test it -- --exact fuzz::{name}"
        );
        resume_unwind(panic);
    }
}
