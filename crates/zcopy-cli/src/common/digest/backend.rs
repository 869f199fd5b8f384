//! The choice between sequential and parallel computation of digests.

use std::fmt;

use fearless_simd::Level;

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
    /// Several streams at the same time, in the lanes of these vector registers.
    Lanes(Level),
}

impl Backend {
    /// Returns the fastest backend: sequential if the processor has instructions for SHA-256,
    /// otherwise the widest vector registers.
    #[must_use]
    pub fn best() -> Self {
        if has_instructions() {
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
        Self(Kind::Lanes(Level::new()))
    }

    /// Returns all backends of this machine.
    pub fn all() -> impl Iterator<Item = Self> {
        let widest = Level::new();
        #[cfg(target_arch = "x86_64")]
        let narrower = [
            widest.as_sse2().map(Level::Sse2),
            widest.as_sse4_2().map(Level::Sse4_2),
            widest.as_avx2().map(Level::Avx2),
            widest.as_avx512().map(Level::Avx512),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let narrower = [Some(widest)];
        let levels = narrower.into_iter().flatten();
        std::iter::once(Self::sequential()).chain(levels.map(|level| Self(Kind::Lanes(level))))
    }

    /// Returns the number of streams that are hashed at the same time.
    #[must_use]
    pub fn lanes(self) -> usize {
        match self.0 {
            Kind::Sequential => 1,
            Kind::Lanes(level) => super::sha256::width(level),
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
            // A level's debug form begins with its name: `Avx2(Avx2)`.
            Kind::Lanes(level) => {
                let name = format!("{level:?}");
                let name = name.split('(').next().unwrap_or_default();
                write!(f, "{} lanes of {name}", self.lanes())
            }
        }
    }
}

/// Returns whether the processor has instructions for SHA-256, which `ring` uses.
fn has_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("sha");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("sha2");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

#[cfg(test)]
mod tests;
