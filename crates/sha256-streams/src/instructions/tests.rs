use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::processor::ShaInstructions;
use crate::{Block, INITIAL};

/// Blocks that differ from place to place and from seed to seed.
fn blocks(n: usize, seed: usize) -> Vec<Block> {
    let block = |at| std::array::from_fn(|byte| (seed * 83 + at * 29 + byte * (byte + 7)) as u8);
    (0..n).map(block).collect()
}

/// The instructions with and without AVX-512, or a word about their absence.
fn instructions() -> Vec<ShaInstructions> {
    let found = ShaInstructions::detect();
    if found.is_none() {
        eprintln!("SKIPPED: this processor has no instructions for SHA-256");
    }
    let both = found.map(|all| [all, all.without_avx512()]);
    both.into_iter().flatten().collect()
}

#[test]
fn one_stream_goes_on_from_any_state() {
    for instructions in instructions() {
        for n in 0..20 {
            let blocks = blocks(n, n);
            let mut found = INITIAL.map(|word| word.rotate_left(n as u32));
            let mut expected = found;
            instructions.compress(std::slice::from_mut(&mut found), &[&blocks]);
            sha2::block_api::compress256(&mut expected, &blocks);
            assert_eq!(found, expected, "{instructions:?}, {n} blocks");
        }
    }
}

#[test]
#[should_panic(expected = "one or two streams")]
fn three_streams_are_refused() {
    let Some(instructions) = ShaInstructions::detect() else {
        panic!("one or two streams are not tried here");
    };
    instructions.compress(&mut [INITIAL; 3], &[&[], &[], &[]]);
}

#[test]
#[should_panic(expected = "each with its state")]
fn a_stream_without_a_state_is_refused() {
    let Some(instructions) = ShaInstructions::detect() else {
        panic!("a stream each with its state is not tried here");
    };
    instructions.compress(&mut [INITIAL], &[&[], &[]]);
}

proptest! {
    #[test]
    fn the_stream_with_fewer_blocks_says_how_many_of_both_are_hashed(
        states: [[u32; 8]; 2],
        seeds: [u8; 2],
        lens in [0..30_usize, 0..30_usize],
    ) {
        for instructions in instructions() {
            let blocks = [0, 1].map(|at| blocks(lens[at], seeds[at].into()));
            let mut found = states;
            instructions.compress(&mut found, &[&blocks[0], &blocks[1]]);
            let n = lens[0].min(lens[1]);
            for ((found, mut expected), blocks) in found.into_iter().zip(states).zip(blocks) {
                sha2::block_api::compress256(&mut expected, &blocks[..n]);
                prop_assert_eq!(found, expected);
            }
        }
    }
}

/// The longer registers that slow these instructions down are the compiler's choice.
#[test]
fn no_number_of_streams_and_no_instructions_take_ten_times_as_long_as_others() {
    let blocks = blocks(4096, 1);
    let times: Vec<Duration> = instructions()
        .into_iter()
        .flat_map(|instructions| [1, 2].map(|n_streams| (instructions, n_streams)))
        .map(|(instructions, n_streams)| {
            let time = || {
                let begun = Instant::now();
                let mut states = vec![INITIAL; n_streams];
                instructions.compress(&mut states, &vec![&blocks[..]; n_streams]);
                assert_ne!(states[0], INITIAL);
                begun.elapsed()
            };
            // Other threads make some of them longer.
            (0..20).map(|_| time()).min().unwrap()
        })
        .collect();
    let [shortest, longest] = [times.iter().min(), times.iter().max()];
    assert!(longest <= shortest.map(|it| *it * 10).as_ref(), "{times:?}");
}
