//! The choice between sequential and parallel computation of digests.

use std::fmt;

use sha256_streams::Compressor;

/// The way in which the SHA-256 digests of several streams are computed.
///
/// [`Backend::best`] is the default. Tests and benchmarks use every backend of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Backend(Kind);

/// The kind of a [`Backend`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// One stream after another.
    Sequential,
    /// Several streams at the same time.
    MultiStream(Compressor),
}

impl Backend {
    /// Returns the fastest backend: [interleaved](Self::interleaved) or sequential if the processor
    /// has instructions for SHA-256, otherwise the widest vector registers.
    #[must_use]
    pub fn best() -> Self {
        if let Some(interleaved) = Self::interleaved() {
            interleaved
        } else if has_instructions() {
            Self::sequential()
        } else {
            Self::in_lanes()
        }
    }

    /// Returns the backend that hashes one stream after another, each by a
    /// [`Stream`](super::Stream).
    #[must_use]
    pub const fn sequential() -> Self {
        Self(Kind::Sequential)
    }

    /// Returns the backend that hashes several streams in the lanes of the widest vector registers
    /// of this machine.
    #[must_use]
    pub fn in_lanes() -> Self {
        Self(Kind::MultiStream(Compressor::in_lanes()))
    }

    /// Returns the backend that interleaves the instructions for SHA-256 of two streams. `None` if
    /// the processor has none, or is not an x86-64.
    #[must_use]
    pub fn interleaved() -> Option<Self> {
        Compressor::interleaved().map(|compressor| Self(Kind::MultiStream(compressor)))
    }

    /// Returns all backends of this machine.
    pub fn all() -> impl Iterator<Item = Self> {
        let several = Compressor::all().map(|compressor| Self(Kind::MultiStream(compressor)));
        std::iter::once(Self::sequential()).chain(several)
    }

    /// Returns the number of streams that are hashed at the same time.
    #[must_use]
    pub fn lanes(self) -> usize {
        match self.0 {
            Kind::Sequential => 1,
            Kind::MultiStream(compressor) => compressor.n_streams(),
        }
    }

    /// Returns whether each stream has a lane of vector registers, so that several streams take no
    /// longer than one.
    #[must_use]
    pub const fn has_vector_lanes(self) -> bool {
        match self.0 {
            Kind::Sequential => false,
            Kind::MultiStream(compressor) => compressor.has_vector_lanes(),
        }
    }

    pub(super) const fn kind(self) -> Kind {
        self.0
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Sequential => f.write_str("one by one"),
            Kind::MultiStream(compressor) => compressor.fmt(f),
        }
    }
}

/// Returns whether the processor has instructions for SHA-256 that only `ring` uses.
fn has_instructions() -> bool {
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("sha2");
    #[cfg(not(target_arch = "aarch64"))]
    return false;
}

#[cfg(test)]
mod tests;
