//! A stand-in for the crate's digests, until they are there.

use std::fmt;
use std::str::FromStr;

/// Which digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// What `sha256sum` checks.
    Sha256,
    /// What `b3sum` checks.
    Blake3,
}

/// 32 bytes that stand for all bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(digits: &str) -> Result<Self, NotADigest> {
        let digest = blake3::Hash::from_hex(digits).map_err(|_| NotADigest)?;
        Ok(Self(*digest.as_bytes()))
    }
}

/// Not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug)]
pub struct NotADigest;

/// A digest under way.
pub struct Stream(Context);

enum Context {
    Sha256(Box<ring::digest::Context>),
    Blake3(Box<blake3::Hasher>),
}

impl Stream {
    /// Of no bytes as yet.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Sha256 => {
                let context = ring::digest::Context::new(&ring::digest::SHA256);
                Context::Sha256(Box::new(context))
            }
            Algorithm::Blake3 => Context::Blake3(Box::default()),
        })
    }

    /// Of these bytes too.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Context::Sha256(context) => context.update(bytes),
            Context::Blake3(hasher) => {
                hasher.update(bytes);
            }
        }
    }

    /// Of no more.
    #[must_use]
    pub fn finish(self) -> Digest {
        let mut digest = [0; 32];
        match self.0 {
            Context::Sha256(context) => digest.copy_from_slice(context.finish().as_ref()),
            Context::Blake3(hasher) => digest.copy_from_slice(hasher.finalize().as_bytes()),
        }
        Digest(digest)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}
