//! The digest of one stream.

use std::fmt;

use super::{Algorithm, Digest, checksum};

/// Computes the digest of one stream.
#[derive(Clone)]
pub struct Stream(Hasher);

#[derive(Clone)]
enum Hasher {
    Sha256(Box<ring::digest::Context>),
    Blake3(Box<blake3::Hasher>),
    Several(Vec<checksum::Hasher>),
}

impl Stream {
    /// Starts an empty stream.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Sha256 => {
                let context = ring::digest::Context::new(&ring::digest::SHA256);
                Hasher::Sha256(Box::new(context))
            }
            Algorithm::Blake3 => Hasher::Blake3(Box::default()),
            Algorithm::Several(set) => {
                Hasher::Several(set.iter().map(checksum::Hasher::new).collect())
            }
        })
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Hasher::Sha256(context) => context.update(bytes),
            Hasher::Blake3(hasher) => {
                hasher.update(bytes);
            }
            Hasher::Several(hashers) => {
                for hasher in hashers {
                    hasher.update(bytes);
                }
            }
        }
    }

    /// Returns the digest of all bytes.
    #[must_use]
    pub fn finish(self) -> Digest {
        let mut bytes = [0; Digest::BYTES];
        match self.0 {
            Hasher::Sha256(context) => bytes.copy_from_slice(context.finish().as_ref()),
            Hasher::Blake3(hasher) => bytes = *hasher.finalize().as_bytes(),
            Hasher::Several(hashers) => {
                let checksums = hashers.into_iter().map(checksum::Hasher::finish);
                let bytes: Vec<_> = checksums
                    .flat_map(|checksum| checksum.as_bytes().to_vec())
                    .collect();
                // No set has longer digests.
                return Digest::from_slice(&bytes).unwrap_or_else(|| Digest::from_bytes([0; 32]));
            }
        }
        Digest::from_bytes(bytes)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Hasher::Sha256(_) => "Stream(Sha256)",
            Hasher::Blake3(_) => "Stream(Blake3)",
            Hasher::Several(_) => "Stream(Several)",
        })
    }
}

#[cfg(test)]
mod tests;
