//! Checksums of every kind, of one stream at a time.

use std::fmt;
use std::io;

use md5::Digest as _;
use xxhash_rust::xxh3::Xxh3;
use xxhash_rust::xxh64::Xxh64;

use super::{Algorithm, Digest, Stream};

/// An algorithm whose checksums can be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumAlgorithm {
    /// `md5sum`
    Md5,
    /// `sha1sum`
    Sha1,
    /// `sha256sum`
    Sha256,
    /// `sha512sum`
    Sha512,
    /// `b3sum`
    Blake3,
    /// `xxh128sum`: XXH3 of 128 bits
    Xxh128,
    /// `xxh64sum`
    Xxh64,
    /// XXH3 of 64 bits
    Xxh3,
}

impl ChecksumAlgorithm {
    /// All algorithms.
    pub const ALL: [Self; 8] = [
        Self::Md5,
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
        Self::Blake3,
        Self::Xxh128,
        Self::Xxh64,
        Self::Xxh3,
    ];

    /// The number of hexadecimal digits in a checksum.
    #[must_use]
    pub fn n_digits(self) -> usize {
        match self {
            Self::Xxh64 | Self::Xxh3 => 16,
            Self::Md5 | Self::Xxh128 => 32,
            Self::Sha1 => 40,
            Self::Sha256 | Self::Blake3 => 64,
            Self::Sha512 => 128,
        }
    }

    /// The name in lower case, as `--hash` takes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::Blake3 => "blake3",
            Self::Xxh128 => "xxh128",
            Self::Xxh64 => "xxh64",
            Self::Xxh3 => "xxh3",
        }
    }

    /// The algorithm that a tag names: as `--tag` of the coreutils and of `xxhsum` writes it, or
    /// OpenSSL 3.
    pub(crate) fn from_tag(tag: &[u8]) -> Option<Self> {
        match tag {
            b"MD5" => Some(Self::Md5),
            b"SHA1" => Some(Self::Sha1),
            b"SHA256" | b"SHA2-256" => Some(Self::Sha256),
            b"SHA512" | b"SHA2-512" => Some(Self::Sha512),
            b"BLAKE3" => Some(Self::Blake3),
            b"XXH128" => Some(Self::Xxh128),
            b"XXH64" => Some(Self::Xxh64),
            b"XXH3" => Some(Self::Xxh3),
            _ => None,
        }
    }
}

/// A checksum of any length up to 64 bytes, shown in hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Checksum {
    /// The bytes, with zeros behind them.
    bytes: [u8; Self::MAX_BYTES],
    len: usize,
}

impl Checksum {
    /// The length of the longest, in bytes: SHA-512's.
    const MAX_BYTES: usize = 64;

    /// Reads to the end, and returns the checksum of what was read.
    ///
    /// # Errors
    ///
    /// The errors of the reader.
    pub(crate) fn of(mut reader: impl io::Read, algorithm: ChecksumAlgorithm) -> io::Result<Self> {
        let (mut hasher, mut block) = (Hasher::new(algorithm), vec![0; 64 << 10]);
        loop {
            match reader.read(&mut block) {
                Ok(0) => return Ok(hasher.finish()),
                Ok(n) => hasher.update(&block[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The checksum with these bytes, of which there are at most 64.
    pub(crate) fn from_bytes(from: &[u8]) -> Self {
        let mut bytes = [0; Self::MAX_BYTES];
        let len = from.len().min(Self::MAX_BYTES);
        bytes[..len].copy_from_slice(&from[..len]);
        Self { bytes, len }
    }

    /// Parses an even number of hexadecimal digits, at most 128, in either case.
    #[must_use]
    pub fn from_digits(digits: &[u8]) -> Option<Self> {
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.is_empty() || pairs.len() > Self::MAX_BYTES || !rest.is_empty() {
            return None;
        }
        let value = |digit: u8| char::from(digit).to_digit(16);
        let mut bytes = [0; Self::MAX_BYTES];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = (value(*high)? << 4 | value(*low)?) as u8;
        }
        let len = pairs.len();
        Some(Self { bytes, len })
    }

    /// The number of its hexadecimal digits.
    #[must_use]
    pub fn n_digits(&self) -> usize {
        2 * self.len
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The same as a [`Digest`], if it has 32 bytes.
    pub(crate) fn to_digest(self) -> Option<Digest> {
        let bytes = self.as_bytes().try_into().ok()?;
        Some(Digest::from_bytes(bytes))
    }
}

impl From<Digest> for Checksum {
    fn from(digest: Digest) -> Self {
        Self::from_bytes(digest.as_bytes())
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checksum({self})")
    }
}

/// Computes the checksum of one stream.
#[derive(Clone)]
pub struct Hasher(State);

#[derive(Clone)]
enum State {
    Md5(md5::Md5),
    /// SHA-1 and SHA-512.
    Ring(Box<ring::digest::Context>),
    /// SHA-256 and BLAKE3.
    Stream(Stream),
    Xxh128(Box<Xxh3>),
    Xxh64(Xxh64),
    Xxh3(Box<Xxh3>),
}

impl Hasher {
    /// A hasher that has seen no bytes.
    #[must_use]
    pub fn new(algorithm: ChecksumAlgorithm) -> Self {
        let ring = |algorithm| State::Ring(Box::new(ring::digest::Context::new(algorithm)));
        Self(match algorithm {
            ChecksumAlgorithm::Md5 => State::Md5(md5::Md5::new()),
            ChecksumAlgorithm::Sha1 => ring(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY),
            ChecksumAlgorithm::Sha512 => ring(&ring::digest::SHA512),
            ChecksumAlgorithm::Sha256 => State::Stream(Stream::new(Algorithm::Sha256)),
            ChecksumAlgorithm::Blake3 => State::Stream(Stream::new(Algorithm::Blake3)),
            ChecksumAlgorithm::Xxh128 => State::Xxh128(Box::default()),
            ChecksumAlgorithm::Xxh64 => State::Xxh64(Xxh64::new(0)),
            ChecksumAlgorithm::Xxh3 => State::Xxh3(Box::default()),
        })
    }

    /// Hashes the next bytes of the stream.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Md5(hasher) => hasher.update(bytes),
            State::Ring(context) => context.update(bytes),
            State::Stream(stream) => stream.update(bytes),
            State::Xxh128(hasher) | State::Xxh3(hasher) => hasher.update(bytes),
            State::Xxh64(hasher) => hasher.update(bytes),
        }
    }

    /// The checksum of all bytes.
    #[must_use]
    pub fn finish(self) -> Checksum {
        match self.0 {
            State::Md5(hasher) => Checksum::from_bytes(&hasher.finalize()),
            State::Ring(context) => Checksum::from_bytes(context.finish().as_ref()),
            State::Stream(stream) => stream.finish().into(),
            // The canonical form of xxHash is big-endian.
            State::Xxh128(hasher) => Checksum::from_bytes(&hasher.digest128().to_be_bytes()),
            State::Xxh64(hasher) => Checksum::from_bytes(&hasher.digest().to_be_bytes()),
            State::Xxh3(hasher) => Checksum::from_bytes(&hasher.digest().to_be_bytes()),
        }
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").finish_non_exhaustive()
    }
}
