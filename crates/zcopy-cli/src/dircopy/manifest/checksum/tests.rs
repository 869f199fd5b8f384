use super::*;
use crate::common::digest::Digest;

fn checksum(algorithm: ChecksumAlgorithm, bytes: &[u8]) -> String {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(bytes);
    hasher.finish().to_string()
}

/// The vectors of RFC 1321, of FIPS 180-4, of BLAKE3's authors, and of `xxh128sum` 0.8.1.
#[test]
fn checksums_of_abc_are_those_of_the_standards() {
    for (algorithm, expected) in [
        (ChecksumAlgorithm::Md5, "900150983cd24fb0d6963f7d28e17f72"),
        (
            ChecksumAlgorithm::Sha1,
            "a9993e364706816aba3e25717850c26c9cd0d89d",
        ),
        (
            ChecksumAlgorithm::Sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            ChecksumAlgorithm::Sha512,
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
        (
            ChecksumAlgorithm::Blake3,
            "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
        ),
        (
            ChecksumAlgorithm::Xxh128,
            "06b05ab6733a618578af5f94892f3950",
        ),
    ] {
        assert_eq!(checksum(algorithm, b"abc"), expected, "{algorithm:?}");
        assert_eq!(algorithm.n_digits(), expected.len(), "{algorithm:?}");
    }
}

#[test]
fn a_stream_may_come_in_any_pieces() {
    let bytes: Vec<u8> = (0..100_000_u32).map(|n| ((n * 7919) >> 3) as u8).collect();
    for algorithm in ChecksumAlgorithm::ALL {
        let mut hasher = Hasher::new(algorithm);
        for piece in bytes.chunks(977) {
            hasher.update(piece);
        }
        let pieces = hasher.finish().to_string();
        assert_eq!(pieces, checksum(algorithm, &bytes), "{algorithm:?}");
    }
}

#[test]
fn checksums_of_different_lengths_differ() {
    let short = Checksum::from_digits(&[b'0'; 32]).unwrap();
    let long = Checksum::from_digits(&[b'0'; 64]).unwrap();
    assert_ne!(short, long);
    assert_eq!(short.to_digest(), None);
    assert_eq!(long.to_digest(), Some(Digest::from_bytes([0; 32])));
}

#[test]
fn no_other_characters_are_digits() {
    for digits in [&b""[..], b"0", b"0g", b"+1", b" 1", &[b'0'; 130]] {
        assert_eq!(Checksum::from_digits(digits), None, "{digits:?}");
    }
}

#[test]
fn the_name_of_the_list_decides_where_two_algorithms_have_as_many_digits() {
    for (name, n_digits, expected) in [
        ("a/MD5SUMS", 32, Some(ChecksumAlgorithm::Md5)),
        ("checksums", 32, Some(ChecksumAlgorithm::Md5)),
        ("xxh128/checksums", 32, Some(ChecksumAlgorithm::Md5)),
        ("XXH128SUMS", 32, Some(ChecksumAlgorithm::Xxh128)),
        ("list.xxh3", 32, Some(ChecksumAlgorithm::Xxh128)),
        ("MD5SUMS", 40, Some(ChecksumAlgorithm::Sha1)),
        ("checksums", 64, Some(ChecksumAlgorithm::Sha256)),
        ("b3sums", 64, Some(ChecksumAlgorithm::Blake3)),
        ("b3sums", 128, Some(ChecksumAlgorithm::Sha512)),
        ("sha512", 96, None),
    ] {
        let found = ChecksumAlgorithm::from_list(name.as_ref(), n_digits);
        assert_eq!(found, expected, "{name}, {n_digits}");
    }
}
