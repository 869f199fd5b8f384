//! Manifests: lists of files with their digests, as `sha256sum` and `b3sum` write them.
//!
//! - [`line`](mod@line): parses and writes one line.
//! - [`name`]: parses and makes the names of manifests.
//! - [`check`]: verifies trees against their manifests.
//! - `metadata`: what a manifest says about itself, in comments.
//! - `archive`: finds the manifests of a tree; `record`: merges their records.
//! - `update`: carries records into a new manifest; `write`: writes one.

pub mod check;
pub mod line;
pub mod name;

pub(crate) mod archive;
pub(crate) mod metadata;
pub(crate) mod record;
pub(crate) mod update;

mod write;

mod contents;
mod lines;
mod report;
mod spool;

mod open_beneath;

/// What stands behind the name of a BLAKE3 manifest in the name of the file with its comments.
const INFO: &str = ".info";
