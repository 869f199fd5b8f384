//! What `zc-pv` moves, from where and to where, beside pv 1.12.

use crate::script::{Outcome, PV, run_tool};

mod inputs;
mod outputs;
mod usage;

mod descriptors;
mod devices;
mod own_file;
mod signals;
mod stopped;
mod without_threads;

mod lines;
mod rate;
mod size;
mod ways;

mod bad_blocks;
mod direct;

mod hash;
mod pidfile;
mod spool;

mod memory;
mod pairs;

/// Runs the script with `pv` standing for `zc-pv`.
fn run(script: &str) -> Outcome {
    PV.run(script)
}

/// What pv 1.12 makes of the script, if there is one.
fn run_pv(script: &str) -> Option<Outcome> {
    crate::peer::pv().map(|pv| run_tool((PV.name, &pv), script, &[]))
}

/// The same, and asserts that pv 1.12 does, says and leaves behind exactly the same.
#[track_caller]
fn as_pv(script: &str) -> Outcome {
    PV.as_peers(script)
}

/// It ended with this status, said this, and this came out.
#[track_caller]
fn ends(outcome: &Outcome, status: i32, stderr: &str, stdout: impl AsRef<[u8]>) {
    outcome.ended_with(status, stderr, stdout);
}
