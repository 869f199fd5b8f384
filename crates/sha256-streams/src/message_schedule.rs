//! The message schedules of several blocks (FIPS 180-4, 6.2.2, step 1) in vector registers. Each
//! register holds one word of all blocks, and each lane belongs to one block.
//!
//! Everything has to be inlined into the function that is compiled for the registers: a call of a
//! function that is compiled for any processor would pass vectors through memory.

#![allow(
    clippy::inline_always,
    reason = "what is not inlined is compiled without the registers"
)]

use fearless_simd::prelude::*;

use super::Block;

/// Returns the number of lanes of the registers.
#[inline(always)]
pub(crate) fn width<S: Simd>(_: S) -> usize {
    S::u32s::LEN
}

/// Loads the 16 words of one block for each lane.
#[inline(always)]
pub(crate) fn load<'a, S: Simd>(simd: S, block: impl Fn(usize) -> &'a Block) -> [S::u32s; 16] {
    let lanes = S::u32s::LEN;
    // Words are big-endian in a block. The pattern is the same in every 16 bytes.
    let reversed = S::u8s::from_fn(simd, |at| ((at % 16) ^ 3) as u8);
    let mut words = [S::u32s::splat(simd, 0); 16];
    // A square has as many words as a register has lanes. Each is transposed separately.
    for (at, square) in words.chunks_exact_mut(lanes).enumerate() {
        let bytes = at * 4 * lanes..(at + 1) * 4 * lanes;
        for (lane, row) in square.iter_mut().enumerate() {
            let loaded = S::u8s::from_slice(simd, &block(lane)[bytes.clone()]);
            *row = loaded.swizzle_dyn_within_blocks(reversed).bitcast();
        }
        transpose::<S>(square);
    }
    words
}

/// Transposes a square: shuffles all values perfectly, once for each bit of a row's number.
#[inline(always)]
fn transpose<S: Simd>(square: &mut [S::u32s]) {
    let lanes = S::u32s::LEN;
    for _ in 0..lanes.ilog2() {
        let mut shuffled = [square[0]; super::MAX_LANES];
        for row in 0..lanes / 2 {
            let (low, high) = square[row].interleave(square[row + lanes / 2]);
            shuffled[2 * row] = low;
            shuffled[2 * row + 1] = high;
        }
        square.copy_from_slice(&shuffled[..lanes]);
    }
}

/// Computes word `at` of the next 16 rounds. It replaces the word of 16 rounds before.
#[inline(always)]
pub(crate) fn next<S: Simd>(words: &mut [S::u32s; 16], at: usize) -> S::u32s {
    let (old, recent) = (words[(at + 1) % 16], words[(at + 14) % 16]);
    let old = rotated::<S>(old, 7) ^ rotated::<S>(old, 18) ^ (old >> 3);
    let recent = rotated::<S>(recent, 17) ^ rotated::<S>(recent, 19) ^ (recent >> 10);
    words[at] = words[at] + old + words[(at + 9) % 16] + recent;
    words[at]
}

/// Rotates each lane to the right. The compiler finds the instruction for it, if there is one.
#[inline(always)]
pub(crate) fn rotated<S: Simd>(word: S::u32s, by: u32) -> S::u32s {
    (word >> by) | (word << (32 - by))
}
