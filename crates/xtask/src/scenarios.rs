//! The scenarios that are swept, by program.

use sha2::{Digest, Sha256};

use crate::scenario::{Observed, STDOUT, Scenario};

mod cat;
mod dircopy;
mod examples;
mod pv;
mod tee;
mod yes;

/// A size in bytes that one read and one write move.
const SMALL: usize = 5_000;
/// A size in bytes that takes several steps and exceeds a pipe of the default capacity.
const LARGE: usize = 300_000;

/// All scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let by_program = [
        cat::scenarios(),
        pv::scenarios(),
        tee::scenarios(),
        yes::scenarios(),
        dircopy::scenarios(),
        examples::scenarios(),
    ];
    by_program.into_iter().flatten().collect()
}

/// With `--explain` a tool says of each input how many of its bytes have arrived, also where it
/// failed.
fn explanations_count_what_arrived(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    let program = scenario.program.name();
    let counts = observed.stderr.lines().filter_map(|line| {
        let (_, told) = line
            .strip_prefix(program)?
            .split_once(" bytes by ")?
            .0
            .rsplit_once(": ")?;
        told.parse::<usize>().ok()
    });
    let told: usize = counts.sum();
    let arrived = observed.output(STDOUT).len();
    // A program that a signal has ended told nothing at its end.
    let has_ended = observed
        .status
        .is_some_and(|status| status.code().is_some());
    let is_wrong = has_ended && observed.is_heard() && told != arrived;
    let text = || format!("it counted {told} bytes, and {arrived} arrived");
    is_wrong.then(text).into_iter().collect()
}

/// Bytes of all values, the same at each call, in which no piece occurs twice.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(len as u64);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

/// Numbered lines, cut at `len` bytes. Some are blank and some have tabs.
pub(crate) fn text(len: usize) -> Vec<u8> {
    let lines = (0..).flat_map(|n| match n % 7 {
        3 => "\n".to_owned().into_bytes(),
        5 => format!("\tline {n}\r\n").into_bytes(),
        _ => format!("line {n} of a text\n").into_bytes(),
    });
    lines.take(len).collect()
}

/// The SHA-256 of some bytes, in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    digits.collect::<Vec<_>>().concat()
}
