use proptest::prelude::*;
use sha2::Digest as _;

use super::{digest_each, digests};
use crate::common::digest::{Algorithm, Backend, Digest};

/// Bytes that differ from place to place and from seed to seed.
fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

/// What `sha2` makes of it.
fn oracle(bytes: &[u8]) -> Digest {
    Digest::from_bytes(sha2::Sha256::digest(bytes).into())
}

/// The digests of all inputs, after every way has found what `sha2` does.
fn agreed(inputs: &[Vec<u8>]) {
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let expected: Vec<_> = inputs.iter().map(|input| oracle(input)).collect();
    for backend in Backend::all() {
        let mut found = vec![Digest::from_bytes([0xFF; 32]); inputs.len()];
        digest_each(Algorithm::Sha256, backend, &inputs, &mut found);
        assert_eq!(found, expected, "{backend}");
    }
}

#[test]
fn known_answers_come_out_every_way_in_every_lane() {
    let known: [(&[u8], &str); 3] = [
        (
            b"",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        (
            b"abc",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
    ];
    for backend in Backend::all() {
        for (input, expected) in known {
            for n in [1, 2, 3, 7, 8, 9, 16, 17] {
                let mut found = vec![Digest::from_bytes([0; 32]); n];
                digest_each(Algorithm::Sha256, backend, &vec![input; n], &mut found);
                for digest in found {
                    assert_eq!(digest.to_string(), expected, "{backend}, {n} at once");
                }
            }
        }
    }
}

#[test]
fn a_million_times_a_comes_out_every_way_in_every_lane() {
    let input = vec![b'a'; 1_000_000];
    for backend in Backend::all() {
        let mut found = vec![Digest::from_bytes([0; 32]); backend.lanes()];
        digest_each(
            Algorithm::Sha256,
            backend,
            &vec![&input[..]; backend.lanes()],
            &mut found,
        );
        for digest in found {
            assert_eq!(
                digest.to_string(),
                "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
                "{backend}"
            );
        }
    }
}

#[test]
fn every_length_to_300_is_right_alone() {
    for len in 0..=300 {
        agreed(&[bytes(len, len as u64)]);
    }
}

#[test]
fn every_length_to_300_is_right_among_equals() {
    for len in 0..=300 {
        for n in [2, 3, 5, 8, 16] {
            agreed(&(0..n).map(|seed| bytes(len, seed)).collect::<Vec<_>>());
        }
    }
}

#[test]
fn every_length_to_300_is_right_among_all_others() {
    let rising: Vec<_> = (0..=300).map(|len| bytes(len, len as u64)).collect();
    agreed(&rising);
    let falling: Vec<_> = rising.into_iter().rev().collect();
    agreed(&falling);
}

#[test]
fn any_number_of_streams_is_right_around_the_ends_of_blocks() {
    for n in 0..=33 {
        let len = |seed: u64| (seed as usize % 5 + 1) * 64 + seed as usize % 3 - 1;
        agreed(
            &(0..n)
                .map(|seed| bytes(len(seed), seed))
                .collect::<Vec<_>>(),
        );
    }
}

#[test]
fn a_long_stream_among_short_ones_is_right() {
    for place in 0..16 {
        let len = |seed: usize| if seed == place { 100_001 } else { seed * 31 };
        agreed(
            &(0..16)
                .map(|seed| bytes(len(seed), seed as u64))
                .collect::<Vec<_>>(),
        );
    }
}

#[test]
fn blake3_is_its_crates() {
    let input = bytes(100_000, 3);
    let found = digests(Algorithm::Blake3, &[&input, b"abc", b""]);
    let expected = [&input[..], b"abc", b""].map(|input| *blake3::hash(input).as_bytes());
    assert_eq!(found, expected.map(Digest::from_bytes));
}

#[test]
#[should_panic(expected = "one digest for each input")]
fn a_place_too_few_is_not_passed_over() {
    digest_each(Algorithm::Sha256, Backend::best(), &[b"abc"], &mut []);
}

proptest! {
    // The vectors are slow where nothing is inlined.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lanes_are_refilled_in_any_order(
        lens in prop::collection::vec(prop_oneof![0..200_usize, 0..5000_usize], 0..50),
        seed: u64,
    ) {
        let inputs = lens.iter().zip(seed..=u64::MAX).map(|(len, seed)| bytes(*len, seed));
        agreed(&inputs.collect::<Vec<_>>());
    }
}
