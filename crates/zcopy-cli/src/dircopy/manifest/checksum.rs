//! Checksums of every kind that a manifest may list.
//!
//! `zc-dircopy` itself writes SHA-256 and BLAKE3, unless a format asks for others. Lists that other
//! programs wrote may hold any of these.

use std::path::Path;

use super::name;
use crate::common::digest::Algorithm;
pub use crate::common::digest::checksum::{Checksum, ChecksumAlgorithm, Hasher};

impl ChecksumAlgorithm {
    /// The algorithm of an untagged checksum, from the file name of the list and the number of
    /// digits. A list may hold checksums of several lengths.
    ///
    /// 32 digits are MD5, unless the name mentions XXH128 or XXH3. For 64 digits,
    /// [`name::algorithm_of`] decides between SHA-256 and BLAKE3.
    #[must_use]
    pub fn from_list(list: &Path, n_digits: usize) -> Option<Self> {
        match n_digits {
            32 => {
                let name = list.file_name().unwrap_or_default();
                let name = name.to_string_lossy().to_ascii_lowercase();
                if name.contains("xxh128") || name.contains("xxh3") {
                    Some(Self::Xxh128)
                } else {
                    Some(Self::Md5)
                }
            }
            40 => Some(Self::Sha1),
            64 => Some(match name::algorithm_of(list) {
                Algorithm::Blake3 => Self::Blake3,
                _ => Self::Sha256,
            }),
            128 => Some(Self::Sha512),
            _ => None,
        }
    }
}

impl ChecksumAlgorithm {
    /// Another algorithm whose checksums have as many digits.
    pub(crate) fn other_of_same_length(self) -> Option<Self> {
        match self {
            Self::Sha256 => Some(Self::Blake3),
            Self::Blake3 => Some(Self::Sha256),
            Self::Md5 => Some(Self::Xxh128),
            Self::Xxh128 => Some(Self::Md5),
            Self::Sha1 | Self::Sha512 | Self::Xxh64 | Self::Xxh3 => None,
        }
    }
}

#[cfg(test)]
mod tests;
