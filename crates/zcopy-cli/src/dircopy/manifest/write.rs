//! Writes the manifest of a run.
//!
//! - `update`: carries records into a new manifest; `writer`: writes one.

pub(crate) mod update;

mod writer;
