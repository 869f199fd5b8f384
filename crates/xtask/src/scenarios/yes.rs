//! `zc-yes`.

use crate::programs::Program;
use crate::scenario::{Scenario, Stdout};

pub(super) fn scenarios() -> Vec<Scenario> {
    let yes = |args: &[&'static str]| Scenario::new(Program::Tool("zc-yes"), args);
    let most = 300_000;
    vec![
        yes(&[]).repeats(Stdout::PipeReadFor(most), b"y\n", most),
        yes(&["some", "words"]).repeats(Stdout::PipeReadFor(most), b"some words\n", most),
    ]
}
