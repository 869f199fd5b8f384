//! Writes the manifest of a run.
//!
//! - `update`: carries records into a new manifest; `writer`: writes one of lines of sums.
//! - `output`: the manifest of any kind.

use rustix::fs::Mode;

pub(crate) mod output;
pub(crate) mod update;

mod writer;

/// The mode of a new manifest.
pub(crate) fn manifest_mode(umask: Mode) -> Mode {
    Mode::from_raw_mode(0o666) - umask
}
