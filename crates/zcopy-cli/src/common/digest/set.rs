//! Sets of checksum algorithms.

use super::checksum::ChecksumAlgorithm;
use super::{Algorithm, Digest};

/// A set of checksum algorithms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AlgorithmSet {
    /// A bit for each of [`ChecksumAlgorithm::ALL`], from the lowest.
    bits: u8,
}

impl AlgorithmSet {
    /// The set with these bits. `None` if the digests would be too long.
    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        let set = Self { bits };
        (set.n_bytes() <= Digest::MAX_BYTES).then_some(set)
    }

    /// A bit for each algorithm.
    pub(crate) fn bits(self) -> u8 {
        self.bits
    }

    /// This set and another algorithm. `None` if the digests of all would have more than
    /// [`Digest::MAX_BYTES`].
    #[must_use]
    pub fn with(self, algorithm: ChecksumAlgorithm) -> Option<Self> {
        Self::from_bits(self.bits | bit(algorithm))
    }

    /// Whether an algorithm is in it.
    #[must_use]
    pub fn contains(self, algorithm: ChecksumAlgorithm) -> bool {
        self.bits & bit(algorithm) != 0
    }

    /// Whether both have an algorithm.
    #[must_use]
    pub fn intersects(self, other: Self) -> bool {
        self.bits & other.bits != 0
    }

    /// Whether all algorithms of another set are in it.
    #[must_use]
    pub fn includes(self, other: Self) -> bool {
        self.bits & other.bits == other.bits
    }

    /// The algorithms, in the order of their digests.
    pub fn iter(self) -> impl Iterator<Item = ChecksumAlgorithm> {
        let all = ChecksumAlgorithm::ALL.into_iter();
        all.filter(move |algorithm| self.contains(*algorithm))
    }

    /// The length of the digests of all algorithms in bytes.
    #[must_use]
    pub fn n_bytes(self) -> usize {
        self.iter().map(|algorithm| algorithm.n_digits() / 2).sum()
    }
}

fn bit(algorithm: ChecksumAlgorithm) -> u8 {
    let mut all = ChecksumAlgorithm::ALL.iter();
    // Every algorithm is in the list.
    1 << all.position(|one| *one == algorithm).unwrap_or(0)
}

impl From<ChecksumAlgorithm> for AlgorithmSet {
    fn from(algorithm: ChecksumAlgorithm) -> Self {
        Self {
            bits: bit(algorithm),
        }
    }
}

impl From<Algorithm> for AlgorithmSet {
    fn from(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha256 => ChecksumAlgorithm::Sha256.into(),
            Algorithm::Blake3 => ChecksumAlgorithm::Blake3.into(),
            Algorithm::Several(set) => set,
        }
    }
}

impl From<AlgorithmSet> for Algorithm {
    fn from(set: AlgorithmSet) -> Self {
        [Self::Sha256, Self::Blake3]
            .into_iter()
            .find(|single| AlgorithmSet::from(*single) == set)
            .unwrap_or(Self::Several(set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::digest::Stream;

    #[test]
    fn the_digest_of_several_functions_consists_of_theirs() {
        let set = AlgorithmSet::from(ChecksumAlgorithm::Sha256);
        assert_eq!(Algorithm::from(set), Algorithm::Sha256);
        let set = set.with(ChecksumAlgorithm::Md5).unwrap();
        let mut stream = Stream::new(set.into());
        stream.update(b"abc");
        let expected = "900150983cd24fb0d6963f7d28e17f72\
                        ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(stream.finish().to_string(), expected);
    }

    #[test]
    fn the_longest_set_has_as_many_bytes_as_a_digest() {
        let set = AlgorithmSet::from(ChecksumAlgorithm::Sha512);
        let set = set.with(ChecksumAlgorithm::Sha1).unwrap();
        let set = set.with(ChecksumAlgorithm::Xxh128).unwrap();
        assert_eq!(set.n_bytes(), Digest::MAX_BYTES);
        assert_eq!(set.with(ChecksumAlgorithm::Xxh3), None);
    }
}
