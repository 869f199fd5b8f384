//! `zc-tee`, beside every GNU tee there is.

use std::ffi::OsStr;
use std::path::Path;

use crate::script::{Outcome, gnus, run_tool};

mod operands;
mod options;

mod append;
mod descriptors;
mod modes;
mod own_input;
mod signals;

mod pauses;
mod readers;
mod terminal;

mod cache;
mod explain;

/// Runs the script with `tee` standing for `zc-tee`.
fn run(script: &str) -> Outcome {
    run_with(script, &[])
}

fn run_with(script: &str, parameters: &[&OsStr]) -> Outcome {
    let tee = Path::new(env!("CARGO_BIN_EXE_zc-tee"));
    run_tool(("tee", tee), script, parameters)
}

/// The same, and sees that every GNU tee there is does exactly the same.
#[track_caller]
fn as_gnu(script: &str) -> Outcome {
    as_gnu_with(script, &[])
}

#[track_caller]
fn as_gnu_with(script: &str, parameters: &[&OsStr]) -> Outcome {
    let ours = run_with(script, parameters);
    for gnu in gnus("tee") {
        ours.is_as(&run_tool(("tee", &gnu), script, parameters), script);
    }
    ours
}

/// The same for what GNU tee has learnt since the one that the machine may have: the newest alone is
/// asked, if it is there.
#[track_caller]
fn as_new_gnu(script: &str) -> Outcome {
    let ours = run(script);
    let newest = gnus("tee").into_iter().find(|gnu| gnu.starts_with("/opt"));
    if let Some(gnu) = newest {
        ours.is_as(&run_tool(("tee", &gnu), script, &[]), script);
    }
    ours
}
