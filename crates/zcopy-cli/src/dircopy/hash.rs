//! Hashes files.
//!
//! - `reader`: reads a file and hashes it.
//! - `pool`: the hashing threads.

use crate::common::digest::{Algorithm, Digest};

pub(crate) mod pool;
pub(crate) mod reader;

/// The digest of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileDigest {
    pub(crate) algorithm: Algorithm,
    pub(crate) digest: Digest,
}

impl FileDigest {
    /// The digest of no file.
    pub(crate) const NONE: Self = Self {
        algorithm: Algorithm::Sha256,
        digest: Digest::from_bytes([0; Digest::BYTES]),
    };
}
