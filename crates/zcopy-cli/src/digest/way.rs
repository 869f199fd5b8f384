//! How the digests of many streams are made at once.

use std::fmt;

use fearless_simd::Level;

/// How the SHA-256 of many streams is made: one by one, or in the lanes of vector registers.
///
/// [`Way::best`] is what everything takes that is not told otherwise. Tests and benchmarks reach every way that a machine has.
///
/// # Examples
///
/// ```
/// use zcopy_cli::digest::Way;
///
/// assert_eq!(Way::one_by_one().lanes(), 1);
/// assert!(Way::in_lanes().lanes() >= 4);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Way(Kind);

/// The kinds of it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    OneByOne,
    Lanes(Level),
}

impl Way {
    /// The fastest: one by one where the processor has instructions for SHA-256, otherwise in the widest registers.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::Way;
    ///
    /// let best = Way::best().to_string();
    /// assert!(Way::all().any(|way| way.to_string() == best));
    /// ```
    #[must_use]
    pub fn best() -> Self {
        if has_instructions() {
            Self::one_by_one()
        } else {
            Self::in_lanes()
        }
    }

    /// One stream after the other, each as a [`Stream`](super::Stream).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::Way;
    ///
    /// assert_eq!(Way::one_by_one().to_string(), "one by one");
    /// ```
    #[must_use]
    pub const fn one_by_one() -> Self {
        Self(Kind::OneByOne)
    }

    /// In the lanes of the widest registers of this machine.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::Way;
    ///
    /// assert!(Way::in_lanes().to_string().contains("lanes"));
    /// ```
    #[must_use]
    pub fn in_lanes() -> Self {
        Self(Kind::Lanes(Level::new()))
    }

    /// Every way that this machine can go.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::{Algorithm, Digest, Way, digest_each};
    ///
    /// for way in Way::all() {
    ///     let mut digest = [Digest::from_bytes([0; 32])];
    ///     digest_each(Algorithm::Sha256, way, &[b"abc"], &mut digest);
    ///     assert!(digest[0].to_string().starts_with("ba7816bf"), "{way}");
    /// }
    /// ```
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
        std::iter::once(Self::one_by_one()).chain(levels.map(|level| Self(Kind::Lanes(level))))
    }

    /// How many streams are worked at together.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::Way;
    ///
    /// assert!(Way::all().all(|way| way.lanes() <= 16));
    /// ```
    #[must_use]
    pub fn lanes(self) -> usize {
        match self.0 {
            Kind::OneByOne => 1,
            Kind::Lanes(level) => super::sha256::width(level),
        }
    }

    /// What kind it is.
    pub(super) const fn kind(self) -> Kind {
        self.0
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::OneByOne => f.write_str("one by one"),
            // A level's debug form begins with its name: `Avx2(Avx2)`.
            Kind::Lanes(level) => {
                let name = format!("{level:?}");
                let name = name.split('(').next().unwrap_or_default();
                write!(f, "{} lanes of {name}", self.lanes())
            }
        }
    }
}

/// Whether the processor has instructions for SHA-256, and so `ring` takes them.
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
