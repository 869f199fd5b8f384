//! Manifests: lists of files with their digests, as `sha256sum` and `b3sum` write them.
//!
//! - [`line`](mod@line): parses and writes one line.
//! - [`name`]: parses and makes the names of manifests.
//! - [`checksum`]: computes and compares checksums of every kind that can be verified.
//! - [`check`]: verifies trees against their manifests.
//! - `metadata`: what a manifest says about itself, in comments.
//! - `archive`: finds the manifests of a tree; `candidate`: reads and verifies one; `merge`: merges their records.
//! - `journal`: what a run has done so far.
//! - `update`: carries records into a new manifest; `write`: writes one.

pub mod check;
pub mod checksum;
pub mod line;
pub mod name;

pub(crate) mod archive;
pub(crate) mod copied;
pub(crate) mod journal;
pub(crate) mod journal_entry;
pub(crate) mod merge;
pub(crate) mod metadata;
pub(crate) mod record;
pub(crate) mod update;

pub(in crate::dircopy) mod event;
pub(in crate::dircopy) mod total;

mod candidate;
mod contents;
mod damage;
mod hash_file;
mod lines;
mod report;
mod resolve;
mod root_names;
mod spool;
mod unlisted;
mod write;

mod open_beneath;

/// What stands behind the name of a BLAKE3 manifest in the name of the file with its comments.
const INFO: &str = ".info";
