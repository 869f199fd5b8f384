//! SHA-256 and BLAKE3 digests of one stream, and of several streams at the same time.
//!
//! SHA-256 hashes the blocks of a stream one after another, and each step of a block needs the
//! result of the one before. This leaves most of the processor's arithmetic units idle. Several
//! streams keep them busy: where the processor has instructions for SHA-256, those of two streams
//! are interleaved; elsewhere each stream takes one lane of the vector registers. BLAKE3 fills the
//! lanes with a single stream, which its crate does.
//!
//! - [`stream`]: hashes one stream.
//! - [`checksum`]: checksums of other kinds; [`set`]: several of them.
//! - [`batch`]: hashes several slices.
//! - [`multi_stream`]: hashes several streams, whose bytes come in pieces.
//! - [`backend`]: chooses between one stream at a time and several.
//! - [`line`](mod@line): writes the line of a file for `sha256sum -c` and `b3sum -c`.

use std::fmt;
use std::str::FromStr;

pub use backend::Backend;
pub use batch::{digest_each, digests};
pub use multi_stream::{MultiStream, StreamId};
pub use set::AlgorithmSet;
pub use stream::Stream;

pub mod backend;
pub mod batch;
pub mod checksum;
pub mod line;
pub mod multi_stream;
pub mod set;
pub mod stream;

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// SHA-256, as `sha256sum` computes it.
    Sha256,
    /// BLAKE3, as `b3sum` computes it.
    Blake3,
    /// Another function, or several. The digest consists of those of all functions.
    Several(AlgorithmSet),
}

/// A digest, shown in hexadecimal digits: 64 for SHA-256 and BLAKE3.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    /// The bytes, with zeros behind them.
    bytes: [u8; Digest::MAX_BYTES],
    len: u8,
}

impl Digest {
    /// The length of a digest of SHA-256 or BLAKE3 in bytes.
    pub const BYTES: usize = 32;

    /// The length of the longest digest of several functions in bytes: those of SHA-512, XXH128 and
    /// SHA-1.
    pub const MAX_BYTES: usize = 100;

    /// Creates a digest from its bytes.
    #[must_use]
    pub const fn from_bytes(from: [u8; Self::BYTES]) -> Self {
        let mut bytes = [0; Self::MAX_BYTES];
        let (first, _) = bytes.split_at_mut(Self::BYTES);
        first.copy_from_slice(&from);
        Self {
            bytes,
            len: Self::BYTES as u8,
        }
    }

    /// Creates a digest from any number of bytes. `None` if there are too many.
    #[must_use]
    pub fn from_slice(from: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX_BYTES];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        let len = from.len() as u8;
        Some(Self { bytes, len })
    }

    /// Returns the bytes of the digest.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0; 2 * Self::MAX_BYTES];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.bytes) {
            for (digit, value) in pair.iter_mut().zip([byte >> 4, byte & 15]) {
                *digit = b"0123456789abcdef"[usize::from(value)];
            }
        }
        // Hexadecimal digits are ASCII, so nothing is replaced.
        f.pad(&String::from_utf8_lossy(
            &digits[..2 * usize::from(self.len)],
        ))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(digits: &str) -> Result<Self, ParseDigestError> {
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        if pairs.len() != Self::BYTES || !rest.is_empty() {
            return Err(ParseDigestError);
        }
        // Parsers of integers would also accept a sign.
        let value = |digit: u8| char::from(digit).to_digit(16).ok_or(ParseDigestError);
        let mut bytes = [0; Self::BYTES];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = (value(*high)? << 4 | value(*low)?) as u8;
        }
        Ok(Self::from_bytes(bytes))
    }
}

/// The error of text that is not a [`Digest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest has 64 hexadecimal digits")]
pub struct ParseDigestError;

#[cfg(test)]
mod tests;
