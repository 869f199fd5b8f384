//! The compression of the blocks of one stream.
//!
//! Each round needs the result of the one before, but the message schedules of the blocks are
//! independent: the schedules of several blocks are computed together.

#![allow(
    clippy::inline_always,
    reason = "what is not inlined is compiled without the registers"
)]

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch};

use super::message_schedule::{load, next};
use super::{Block, MAX_LANES, ROUNDS, State};

/// Hashes all blocks.
pub(crate) fn compress(level: Level, state: &mut State, blocks: &[Block]) {
    dispatch!(level, simd => compress_in(simd, state, blocks));
}

#[inline(always)]
fn compress_in<S: Simd>(simd: S, state: &mut State, blocks: &[Block]) {
    for blocks in blocks.chunks(S::u32s::LEN) {
        // The words in the remaining lanes are not used.
        let mut words = load(simd, |lane| blocks.get(lane).unwrap_or(&blocks[0]));
        let mut scheduled = [[0; MAX_LANES]; 64];
        for (at, word) in words.iter().enumerate() {
            let word = *word + S::u32s::splat(simd, ROUNDS[at]);
            word.store_slice(&mut scheduled[at][..S::u32s::LEN]);
        }
        let later = scheduled[16..].as_chunks_mut::<16>().0;
        for (scheduled, constants) in later.iter_mut().zip(ROUNDS[16..].as_chunks::<16>().0) {
            sixteen_times!(at => {
                let word = next::<S>(&mut words, at) + S::u32s::splat(simd, constants[at]);
                word.store_slice(&mut scheduled[at][..S::u32s::LEN]);
            });
        }
        for lane in 0..blocks.len() {
            let before = *state;
            for scheduled in scheduled.as_chunks::<16>().0 {
                sixteen_times!(at => round(state, scheduled[at][lane]));
            }
            for (word, before) in state.iter_mut().zip(before) {
                *word = word.wrapping_add(before);
            }
        }
    }
}

/// Computes a round (FIPS 180-4, 6.2.2, step 3).
#[inline(always)]
#[allow(clippy::many_single_char_names, reason = "the standard's letters")]
fn round(state: &mut State, word: u32) {
    let [a, b, c, d, e, f, g, h] = *state;
    let first = h
        .wrapping_add(e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25))
        .wrapping_add((e & f) ^ (!e & g))
        .wrapping_add(word);
    let second = (a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22))
        .wrapping_add(b ^ ((a ^ b) & (b ^ c)));
    let (a_next, e_next) = (first.wrapping_add(second), d.wrapping_add(first));
    *state = [a_next, a, b, c, e_next, e, f, g];
}

#[cfg(test)]
mod tests;
