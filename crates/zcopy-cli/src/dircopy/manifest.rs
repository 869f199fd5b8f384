//! Manifests: lists of files with their digests, as `sha256sum` and `b3sum` write them.
//!
//! - [`line`](mod@line): parses and writes one line.
//! - [`name`]: parses and makes the names of manifests.
//! - [`checksum`]: computes and compares checksums of every kind that can be verified.
//! - [`check`]: verifies trees against their manifests.

pub mod check;
pub mod checksum;
pub mod line;
pub mod name;

pub(in crate::dircopy) mod event;
mod lines;
mod report;
pub(in crate::dircopy) mod total;

mod open_beneath;
