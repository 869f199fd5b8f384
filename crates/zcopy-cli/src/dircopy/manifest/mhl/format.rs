//! The names that a generation has for digests.

use super::c4;
use crate::common::digest::checksum::{Checksum, ChecksumAlgorithm};

/// The names, in the order of the schema.
pub(super) const FORMATS: [(&str, ChecksumAlgorithm); 6] = [
    ("c4", ChecksumAlgorithm::Sha512),
    ("md5", ChecksumAlgorithm::Md5),
    ("sha1", ChecksumAlgorithm::Sha1),
    ("xxh128", ChecksumAlgorithm::Xxh128),
    ("xxh3", ChecksumAlgorithm::Xxh3),
    ("xxh64", ChecksumAlgorithm::Xxh64),
];

/// The algorithm with this name.
pub(super) fn algorithm_of(name: &str) -> Option<ChecksumAlgorithm> {
    let mut formats = FORMATS.into_iter();
    formats.find_map(|(known, algorithm)| (known == name).then_some(algorithm))
}

/// A checksum as a generation writes it.
pub(crate) fn text_of(algorithm: ChecksumAlgorithm, checksum: &Checksum) -> String {
    match algorithm {
        ChecksumAlgorithm::Sha512 => c4::encode(checksum),
        _ => checksum.to_string(),
    }
}

/// The checksum that a generation has.
pub(super) fn parse(algorithm: ChecksumAlgorithm, text: &str) -> Option<Checksum> {
    match algorithm {
        ChecksumAlgorithm::Sha512 => c4::decode(text),
        _ => Checksum::from_digits(text.as_bytes())
            .filter(|checksum| checksum.n_digits() == algorithm.n_digits()),
    }
}
