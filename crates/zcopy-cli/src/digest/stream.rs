//! The digest of one stream.

use std::fmt;

use super::{Algorithm, Digest};

/// The digest of one stream under way.
///
/// # Examples
///
/// ```
/// use zcopy_cli::digest::{Algorithm, Stream, digests};
///
/// let mut stream = Stream::new(Algorithm::Sha256);
/// stream.update(b"a");
/// stream.update(b"bc");
/// assert_eq!(stream.finish(), digests(Algorithm::Sha256, &[b"abc"])[0]);
/// ```
#[derive(Clone)]
pub struct Stream(Hasher);

#[derive(Clone)]
enum Hasher {
    Sha256(Box<ring::digest::Context>),
    Blake3(Box<blake3::Hasher>),
}

impl Stream {
    /// A stream of which nothing has passed yet.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::{Algorithm, Stream};
    ///
    /// let empty = Stream::new(Algorithm::Sha256).finish();
    /// assert!(empty.to_string().starts_with("e3b0c442"));
    /// ```
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Sha256 => {
                let context = ring::digest::Context::new(&ring::digest::SHA256);
                Hasher::Sha256(Box::new(context))
            }
            Algorithm::Blake3 => Hasher::Blake3(Box::default()),
        })
    }

    /// These bytes come next.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::{Algorithm, Stream};
    ///
    /// let mut stream = Stream::new(Algorithm::Blake3);
    /// let before = stream.clone();
    /// stream.update(b"");
    /// assert_eq!(stream.clone().finish(), before.clone().finish());
    /// stream.update(b"x");
    /// assert_ne!(stream.finish(), before.finish());
    /// ```
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Hasher::Sha256(context) => context.update(bytes),
            Hasher::Blake3(hasher) => {
                hasher.update(bytes);
            }
        }
    }

    /// The digest of all that has passed.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::{Algorithm, Stream};
    ///
    /// let mut stream = Stream::new(Algorithm::Sha256);
    /// stream.update(b"abc");
    /// assert!(stream.finish().to_string().starts_with("ba7816bf"));
    /// ```
    #[must_use]
    pub fn finish(self) -> Digest {
        let mut bytes = [0; Digest::BYTES];
        match self.0 {
            Hasher::Sha256(context) => bytes.copy_from_slice(context.finish().as_ref()),
            Hasher::Blake3(hasher) => bytes = *hasher.finalize().as_bytes(),
        }
        Digest::from_bytes(bytes)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Hasher::Sha256(_) => "Stream(Sha256)",
            Hasher::Blake3(_) => "Stream(Blake3)",
        })
    }
}

#[cfg(test)]
mod tests;
