//! A digest of everything that passes.

use std::fmt::Write as _;

/// Which digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// What `sha256sum` checks.
    Sha256,
    /// What `b3sum` checks, and what takes a tenth of the time.
    Blake3,
}

/// A digest under way.
#[derive(Clone)]
pub(crate) enum Digest {
    Sha256(Box<ring::digest::Context>),
    Blake3(Box<blake3::Hasher>),
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digest")
    }
}

impl Digest {
    pub(crate) fn by(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha256 => {
                Self::Sha256(Box::new(ring::digest::Context::new(&ring::digest::SHA256)))
            }
            Algorithm::Blake3 => Self::Blake3(Box::default()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(context) => context.update(bytes),
            Self::Blake3(hasher) => {
                hasher.update(bytes);
            }
        }
    }

    /// The digest in hexadecimal, with the name of standard input, as `sha256sum -c` and `b3sum -c` read it.
    pub(crate) fn line(self) -> String {
        let mut line = String::with_capacity(68);
        let mut put = |bytes: &[u8]| {
            for byte in bytes {
                // Writing to a string cannot fail.
                let _ = write!(line, "{byte:02x}");
            }
        };
        match self {
            Self::Sha256(context) => put(context.finish().as_ref()),
            Self::Blake3(hasher) => put(hasher.finalize().as_bytes()),
        }
        line.push_str("  -");
        line
    }
}

#[cfg(test)]
mod tests {
    use super::{Algorithm, Digest};

    #[test]
    fn both_digests_are_those_of_the_standards() {
        for (algorithm, expected) in [
            (
                Algorithm::Sha256,
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  -",
            ),
            (
                Algorithm::Blake3,
                "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85  -",
            ),
        ] {
            let mut digest = Digest::by(algorithm);
            digest.update(b"a");
            digest.update(b"");
            digest.update(b"bc");
            assert_eq!(digest.line(), expected, "{algorithm:?}");
        }
    }
}
