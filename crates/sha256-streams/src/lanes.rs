//! The compression of a block of each of several streams at the same time.

#![allow(
    clippy::inline_always,
    reason = "what is not inlined is compiled without the registers"
)]

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch};

use super::message_schedule::{load, next, rotated};
use super::{Block, ROUNDS, State};

/// Hashes the same number of blocks of each stream: as many as the stream with the fewest has.
///
/// # Panics
///
/// If the number of streams is not the number of lanes.
pub(crate) fn compress(level: Level, states: &mut [State], blocks: &[&[Block]]) {
    dispatch!(level, simd => compress_in(simd, states, blocks));
}

#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "it counts the blocks of every lane"
)]
fn compress_in<S: Simd>(simd: S, states: &mut [State], blocks: &[&[Block]]) {
    let lanes = S::u32s::LEN;
    assert!(states.len() == lanes && blocks.len() == lanes);
    let n_blocks = blocks.iter().map(|blocks| blocks.len()).min().unwrap_or(0);

    let mut state: [S::u32s; 8] =
        std::array::from_fn(|word| S::u32s::from_fn(simd, |lane| states[lane][word]));
    for at in 0..n_blocks {
        let mut words = load(simd, |lane| &blocks[lane][at]);
        let before = state;
        sixteen_times!(at => round::<S>(&mut state, words[at] + S::u32s::splat(simd, ROUNDS[at])));
        for constants in ROUNDS[16..].as_chunks::<16>().0 {
            sixteen_times!(at => {
                let word = next::<S>(&mut words, at) + S::u32s::splat(simd, constants[at]);
                round::<S>(&mut state, word);
            });
        }
        for (word, before) in state.iter_mut().zip(before) {
            *word += before;
        }
    }
    for (lane, out) in states.iter_mut().enumerate() {
        *out = std::array::from_fn(|word| state[word].as_slice()[lane]);
    }
}

/// Computes a round (FIPS 180-4, 6.2.2, step 3).
#[inline(always)]
#[allow(clippy::many_single_char_names, reason = "the standard's letters")]
fn round<S: Simd>(state: &mut [S::u32s; 8], word: S::u32s) {
    let [a, b, c, d, e, f, g, h] = *state;
    let first = h
        + (rotated::<S>(e, 6) ^ rotated::<S>(e, 11) ^ rotated::<S>(e, 25))
        + (g ^ (e & (f ^ g)))
        + word;
    let second = (rotated::<S>(a, 2) ^ rotated::<S>(a, 13) ^ rotated::<S>(a, 22))
        + ((a & b) | (c & (a | b)));
    *state = [first + second, a, b, c, d + first, e, f, g];
}

#[cfg(test)]
mod tests;
