//! Manifests: lists of files with their digests, as `sha256sum` and `b3sum` write them.
//!
//! - [`line`](mod@line): parses and writes one line.
//! - [`name`]: parses and makes the names of manifests.
//! - [`checksum`]: computes and compares checksums of every kind that can be verified.
//! - [`check`]: verifies trees against their manifests.
//! - `kind`: the kinds of manifests; `bag`: the tag files of a bag; `mhl`: the histories of ASC MHL.
//! - `header`: the comments of a manifest: its header and its last line.
//! - `record`: what a line says about a path.
//! - `read`: finds, verifies and merges the manifests of a tree.
//! - `write`: writes the manifest of a run.
//! - `journal`: writes the changes of a run, and reads the journal of a killed run.
//! - `inventory`: the files of a tree, in the order of their paths.
//! - `open_beneath`: opens files at the paths of a manifest; `hash_file`: hashes one.
//! - `buffered_file`: a file under construction that is written in blocks.

pub mod check;
pub mod checksum;
pub mod kind;
pub mod line;
pub mod name;

pub(crate) mod bag;
pub(crate) mod buffered_file;
pub(crate) mod hash_file;
pub(crate) mod header;
pub(crate) mod inventory;
pub(crate) mod journal;
pub(crate) mod mhl;
pub(crate) mod open_beneath;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod write;

/// The suffix of the file with the comments of a BLAKE3 manifest, behind the manifest's name.
pub(crate) const INFO: &str = ".info";
