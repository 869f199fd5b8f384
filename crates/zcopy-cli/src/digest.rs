//! Digests of what passes: of one stream, and of many at once.
//!
//! A lone stream is a [`Stream`]. SHA-256 takes its blocks one after the other, so that a processor without instructions for
//! it has most of its arithmetic idle; several streams together keep it busy, each in a lane of the vector registers.
//! [`digests`] does so for slices, [`Lanes`] for streams whose bytes come bit by bit, and [`Way`] tells whether it pays here.
//! BLAKE3 fills the lanes with a single stream, and is merely passed on to its crate.
//!
//! - [`stream`]: one stream.
//! - [`batch`]: many slices at once.
//! - [`lanes`]: many streams at once.
//! - [`way`]: one by one or in lanes, and in which.

use std::fmt;
use std::str::FromStr;

pub use batch::{digest_each, digests};
pub use lanes::{Lane, Lanes};
pub use stream::Stream;
pub use way::Way;

pub mod batch;
pub mod lanes;
pub mod stream;
pub mod way;

mod sha256;

/// Which digest.
///
/// # Examples
///
/// ```
/// use zcopy_cli::digest::{Algorithm, digests};
///
/// let both = [Algorithm::Sha256, Algorithm::Blake3].map(|algorithm| digests(algorithm, &[b"abc"])[0]);
/// assert!(both[0].to_string().starts_with("ba7816bf"));
/// assert!(both[1].to_string().starts_with("6437b3ac"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// What `sha256sum` checks.
    Sha256,
    /// What `b3sum` checks.
    Blake3,
}

/// A digest of 32 bytes, shown as 64 hexadecimal digits.
///
/// # Examples
///
/// ```
/// use zcopy_cli::digest::Digest;
///
/// let digest = Digest::from_bytes([0xAB; 32]);
/// assert_eq!(digest.to_string(), "ab".repeat(32));
/// assert_eq!("AB".repeat(32).parse(), Ok(digest));
/// assert!("ab".parse::<Digest>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; Digest::BYTES]);

impl Digest {
    /// How many bytes a digest has.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::Digest;
    ///
    /// assert_eq!(Digest::BYTES, 32);
    /// ```
    pub const BYTES: usize = 32;

    /// The digest that these bytes are.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::Digest;
    ///
    /// assert_eq!(Digest::from_bytes([7; 32]).as_bytes(), &[7; 32]);
    /// ```
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::Digest;
    ///
    /// assert_eq!(Digest::from_bytes([7; 32]).as_bytes()[31], 7);
    /// ```
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
        // Hexadecimal digits are ASCII, so that there is nothing to be lost.
        f.pad(&String::from_utf8_lossy(&digits))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(digits: &str) -> Result<Self, NotADigest> {
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        if pairs.len() != Self::BYTES || !rest.is_empty() {
            return Err(NotADigest);
        }
        // A sign, which the parsers of integers take, is no digit.
        let value = |digit: u8| char::from(digit).to_digit(16).ok_or(NotADigest);
        let mut bytes = [0; Self::BYTES];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = (value(*high)? << 4 | value(*low)?) as u8;
        }
        Ok(Self(bytes))
    }
}

/// What was to be read as a [`Digest`] is none.
///
/// # Examples
///
/// ```
/// use zcopy_cli::digest::{Digest, NotADigest};
///
/// assert_eq!("zz".repeat(32).parse::<Digest>(), Err(NotADigest));
/// assert_eq!(NotADigest.to_string(), "a digest has 64 hexadecimal digits");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest has 64 hexadecimal digits")]
pub struct NotADigest;

#[cfg(test)]
mod tests;
