//! SHA-256 and BLAKE3 digests of one stream, and of several streams at the same time.
//!
//! SHA-256 hashes the blocks of a stream one after another, and each step of a block needs the
//! result of the one before. This leaves most of the processor's arithmetic units idle. Several
//! streams keep them busy: where the processor has instructions for SHA-256, those of two streams
//! are interleaved; elsewhere each stream takes one lane of the vector registers. BLAKE3 fills the
//! lanes with a single stream, which its crate does.
//!
//! - [`stream`]: hashes one stream.
//! - [`batch`]: hashes several slices.
//! - [`multi_stream`]: hashes several streams, whose bytes come in pieces.
//! - [`backend`]: chooses between one stream at a time and several.
//! - [`line`](mod@line): writes the line of a file for `sha256sum -c` and `b3sum -c`.

use std::fmt;
use std::str::FromStr;

pub use backend::Backend;
pub use batch::{digest_each, digests};
pub use multi_stream::{MultiStream, StreamId};
pub use stream::Stream;

pub mod backend;
pub mod batch;
pub mod line;
pub mod multi_stream;
pub mod stream;

pub(crate) mod sha256;

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// SHA-256, as `sha256sum` computes it.
    Sha256,
    /// BLAKE3, as `b3sum` computes it.
    Blake3,
}

/// A digest of 32 bytes, shown as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; Digest::BYTES]);

impl Digest {
    /// The length of a digest in bytes.
    pub const BYTES: usize = 32;

    /// Creates a digest from its bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the digest.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0; 2 * Self::BYTES];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            for (digit, value) in pair.iter_mut().zip([byte >> 4, byte & 15]) {
                *digit = b"0123456789abcdef"[usize::from(value)];
            }
        }
        // Hexadecimal digits are ASCII, so nothing is replaced.
        f.pad(&String::from_utf8_lossy(&digits))
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
        Ok(Self(bytes))
    }
}

/// The error of text that is not a [`Digest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest has 64 hexadecimal digits")]
pub struct ParseDigestError;

#[cfg(test)]
mod tests;
