//! Manifests: lists of files with their digests, as `sha256sum` and `b3sum` write them.
//!
//! - [`line`](mod@line): parses and writes one line.
//! - [`name`]: parses and makes the names of manifests.
//! - [`checksum`]: computes and compares checksums of every kind that can be verified.
//! - [`check`]: verifies trees against their manifests.
//! - `metadata`: the comments of a manifest: its header and its last line.
//! - `archive`: finds the manifests of a tree; `candidate`: reads and verifies one; `copied`: finds those that came from a source; `merge`: merges their records.
//! - `journal`: writes what a run has done so far, and reads what a killed run has left.
//! - `update`: carries records into a new manifest; `write`: writes one.
//! - `unlisted`: finds files without a record.

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
pub(super) mod contents;
mod damage;
mod hash_file;
mod lines;
pub(super) mod open_beneath;
mod report;
mod resolve;
mod root_names;
mod spool;
mod unlisted;
mod write;

/// The suffix of the file with the comments of a BLAKE3 manifest, behind the manifest's name.
const INFO: &str = ".info";
