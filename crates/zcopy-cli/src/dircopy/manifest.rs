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

pub(crate) mod hash_file;
pub(crate) mod header;
pub(crate) mod journal;
pub(crate) mod open_beneath;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod write;

/// The suffix of the file with the comments of a BLAKE3 manifest, behind the manifest's name.
const INFO: &str = ".info";
