//! Hashes files.
//!
//! - `reader`: reads a file and hashes it.
//! - `read_from`: where its bytes come from, and reads past the page cache.
//! - `transfers`: how far and how fast a file is read, until which signal, and with which errors.
//! - `pool`: the hashing threads.
//! - `null`: the null device, which takes the bytes of files that are hashed.

use crate::common::digest::checksum::{Checksum, ChecksumAlgorithm};
use crate::common::digest::{Algorithm, AlgorithmSet, Digest};

pub(crate) mod null;
pub(crate) mod pool;
pub(crate) mod read_from;
pub(crate) mod reader;
pub(crate) mod transfers;

/// The digest of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileDigest {
    pub(crate) algorithm: Algorithm,
    pub(crate) digest: Digest,
}

impl FileDigest {
    /// The digest of no file.
    pub(crate) const NONE: Self = Self {
        algorithm: Algorithm::Sha256,
        digest: Digest::from_bytes([0; Digest::BYTES]),
    };

    /// The digest of one function.
    pub(crate) fn from_checksum(algorithm: ChecksumAlgorithm, checksum: &Checksum) -> Option<Self> {
        Some(Self {
            algorithm: AlgorithmSet::from(algorithm).into(),
            digest: Digest::from_slice(checksum.as_bytes())?,
        })
    }

    /// The functions, and the checksum of each.
    pub(crate) fn checksums(self) -> impl Iterator<Item = (ChecksumAlgorithm, Checksum)> {
        let mut start = 0;
        AlgorithmSet::from(self.algorithm)
            .iter()
            .map(move |algorithm| {
                let end = start + algorithm.n_digits() / 2;
                let bytes = self.digest.as_bytes().get(start..end);
                start = end;
                (algorithm, Checksum::from_bytes(bytes.unwrap_or_default()))
            })
    }

    /// The checksum of one function.
    pub(crate) fn checksum(self, algorithm: ChecksumAlgorithm) -> Option<Checksum> {
        let mut checksums = self.checksums();
        checksums.find_map(|(one, checksum)| (one == algorithm).then_some(checksum))
    }

    /// Compares the checksums of the functions that both have. `None` if there are none.
    pub(crate) fn agreement(self, other: Self) -> Option<bool> {
        if self.algorithm == other.algorithm {
            return Some(self.digest == other.digest);
        }
        let common = self.checksums().filter_map(|(algorithm, checksum)| {
            let other = other.checksum(algorithm)?;
            Some(other == checksum)
        });
        common.reduce(|all, one| all && one)
    }

    /// Whether both have a function, and the checksums of all functions that both have are equal.
    pub(crate) fn agrees_with(self, other: Self) -> bool {
        self.agreement(other) == Some(true)
    }

    /// Algorithms, and one of the digest's own to compare it with, if there is room and they have
    /// none of them.
    pub(crate) fn algorithms_with(self, set: AlgorithmSet) -> AlgorithmSet {
        let own = AlgorithmSet::from(self.algorithm);
        let with_own = own.iter().find_map(|algorithm| set.with(algorithm));
        with_own.filter(|_| !set.intersects(own)).unwrap_or(set)
    }

    /// These checksums, and those that only `others` has, as far as there is room.
    #[must_use]
    pub(crate) fn joined(self, others: Self) -> Self {
        let mut set = AlgorithmSet::from(self.algorithm);
        for algorithm in AlgorithmSet::from(others.algorithm).iter() {
            set = set.with(algorithm).unwrap_or(set);
        }
        self.taken_from(others, set)
    }

    /// The checksums of these functions: its own, or else those of another.
    fn taken_from(self, others: Self, set: AlgorithmSet) -> Self {
        let checksums = set.iter().filter_map(|algorithm| {
            let own = self.checksum(algorithm);
            own.or_else(|| others.checksum(algorithm))
        });
        let bytes: Vec<_> = checksums
            .flat_map(|checksum| checksum.as_bytes().to_vec())
            .collect();
        Digest::from_slice(&bytes).map_or(self, |digest| Self {
            algorithm: set.into(),
            digest,
        })
    }
}
