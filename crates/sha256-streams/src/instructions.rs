//! The compression of blocks of one or two streams by the instructions of x86-64 processors for
//! SHA-256.
//!
//! Each of a block's 32 instructions for two rounds needs the result of the one before, which takes
//! longer to come than the next instruction takes to start. So the instructions of two streams fit
//! between each other.

use std::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_extract_epi32, _mm_or_si128, _mm_set_epi32,
    _mm_set_epi64x, _mm_setzero_si128, _mm_sha256msg1_epu32, _mm_sha256msg2_epu32,
    _mm_sha256rnds2_epu32, _mm_shuffle_epi8, _mm_shuffle_epi32, _mm_slli_epi32, _mm_srli_epi32,
    _mm_xor_si128,
};

use super::{Block, ROUNDS, State};

/// Hashes the same number of blocks of each stream: as many as the stream with the fewest has.
///
/// # Panics
///
/// If the number of streams is neither one nor two, or differs from that of the states.
#[target_feature(enable = "sha,sse4.1,ssse3,sse2")]
pub(crate) fn compress(states: &mut [State], blocks: &[&[Block]]) {
    let one = |states: &mut [Registers; 1], blocks: [&[Block]; 1]| {
        compress_each::<1, true>(states, blocks);
    };
    let two = |states: &mut [Registers; 2], blocks: [&[Block]; 2]| {
        compress_each::<2, true>(states, blocks);
    };
    compress_by(states, blocks, one, two);
}

/// Does the same as [`compress`] with the rotations of AVX-512, which are computed elsewhere in the
/// processor than the rounds.
#[target_feature(enable = "sha,sse4.1,ssse3,sse2,avx512f,avx512vl")]
pub(crate) fn compress_with_avx512(states: &mut [State], blocks: &[&[Block]]) {
    let one = |states: &mut [Registers; 1], blocks: [&[Block]; 1]| {
        compress_one_with_avx512(states, blocks);
    };
    let two = |states: &mut [Registers; 2], blocks: [&[Block]; 2]| {
        compress_two_with_avx512(states, blocks);
    };
    compress_by(states, blocks, one, two);
}

// The two functions below are kept apart from the conversion between states and registers. Within
// one function the compiler joins the registers of both streams to longer ones. The instructions
// for SHA-256 leave the upper bytes of a register (all above the lowest 16) unchanged, and take 200
// times as long while upper bytes are in use.

#[inline(never)]
#[target_feature(enable = "sha,sse4.1,ssse3,sse2,avx512f,avx512vl")]
fn compress_one_with_avx512(states: &mut [Registers; 1], blocks: [&[Block]; 1]) {
    compress_each::<1, false>(states, blocks);
}

#[inline(never)]
#[target_feature(enable = "sha,sse4.1,ssse3,sse2,avx512f,avx512vl")]
fn compress_two_with_avx512(states: &mut [Registers; 2], blocks: [&[Block]; 2]) {
    compress_each::<2, false>(states, blocks);
}

/// Makes registers of the states, calls `one` or `two` with them, and makes states of them again.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3,sse2")]
fn compress_by(
    states: &mut [State],
    blocks: &[&[Block]],
    one: impl Fn(&mut [Registers; 1], [&[Block]; 1]),
    two: impl Fn(&mut [Registers; 2], [&[Block]; 2]),
) {
    match (states, blocks) {
        ([state], [blocks]) => {
            let mut registers = [Registers::from_state(state)];
            one(&mut registers, [blocks]);
            *state = registers[0].to_state();
        }
        ([first, second], [of_first, of_second]) => {
            // The blocks that the other stream does not have are cut off.
            let n_blocks = of_first.len().min(of_second.len());
            let blocks = [&of_first[..n_blocks], &of_second[..n_blocks]];
            let mut registers = [Registers::from_state(first), Registers::from_state(second)];
            two(&mut registers, blocks);
            [*first, *second] = registers.map(|registers| registers.to_state());
        }
        _ => panic!("one or two streams, each with its state"),
    }
}

/// A state as the instructions take it: with `a` and `c` in the highest words.
#[derive(Clone, Copy)]
struct Registers {
    abef: __m128i,
    cdgh: __m128i,
}

#[allow(clippy::many_single_char_names, reason = "the standard's letters")]
impl Registers {
    #[inline]
    #[target_feature(enable = "sse2")]
    fn from_state(state: &State) -> Self {
        let [a, b, c, d, e, f, g, h] = *state;
        Self {
            abef: register([f, e, b, a]),
            cdgh: register([h, g, d, c]),
        }
    }

    #[inline]
    #[target_feature(enable = "sse4.1,sse2")]
    fn to_state(self) -> State {
        let [f, e, b, a] = words_of(self.abef);
        let [h, g, d, c] = words_of(self.cdgh);
        [a, b, c, d, e, f, g, h]
    }
}

/// Hashes the blocks of `N` streams, which have the same number of them. `MSG1` is the parameter of
/// [`next`].
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3,sse2")]
#[allow(
    clippy::needless_range_loop,
    reason = "it counts the blocks of every stream"
)]
fn compress_each<const N: usize, const MSG1: bool>(
    registers: &mut [Registers; N],
    blocks: [&[Block]; N],
) {
    let n_blocks = blocks[0].len();
    let mut abef = registers.each_ref().map(|it| it.abef);
    let mut cdgh = registers.each_ref().map(|it| it.cdgh);
    for at in 0..n_blocks {
        let (abef_before, cdgh_before) = (abef, cdgh);
        let mut words = [[_mm_setzero_si128(); 4]; N];
        for stream in 0..N {
            let quarters = blocks[stream][at].as_chunks::<16>().0;
            for (words, quarter) in words[stream].iter_mut().zip(quarters) {
                *words = load(quarter);
            }
        }
        sixteen_times!(group => {
            let constants = register(ROUNDS.as_chunks::<4>().0[group]);
            for stream in 0..N {
                if group >= 4 {
                    next::<MSG1>(&mut words[stream], group);
                }
                let words = _mm_add_epi32(words[stream][group % 4], constants);
                four_rounds(&mut abef[stream], &mut cdgh[stream], words);
            }
        });
        for stream in 0..N {
            abef[stream] = _mm_add_epi32(abef[stream], abef_before[stream]);
            cdgh[stream] = _mm_add_epi32(cdgh[stream], cdgh_before[stream]);
        }
    }
    for stream in 0..N {
        registers[stream] = Registers {
            abef: abef[stream],
            cdgh: cdgh[stream],
        };
    }
}

/// Computes the words of four rounds, which replace the words of 16 rounds before (FIPS 180-4,
/// 6.2.2, step 1).
///
/// With `MSG1` an instruction computes the sum of the two words that are used first. It is slow on
/// Intel's processors, where it delays the rounds. Without, shifts do the same. Two of them that
/// rotate become one instruction where AVX-512 has it.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3,sse2")]
fn next<const MSG1: bool>(words: &mut [__m128i; 4], group: usize) {
    let (oldest, older) = (words[group % 4], words[(group + 1) % 4]);
    let (recent, latest) = (words[(group + 2) % 4], words[(group + 3) % 4]);
    let first = if MSG1 {
        _mm_sha256msg1_epu32(oldest, older)
    } else {
        let old = _mm_alignr_epi8::<4>(older, oldest);
        let rotated_7 = _mm_or_si128(_mm_srli_epi32::<7>(old), _mm_slli_epi32::<25>(old));
        let rotated_18 = _mm_or_si128(_mm_srli_epi32::<18>(old), _mm_slli_epi32::<14>(old));
        let mixed = _mm_xor_si128(rotated_7, rotated_18);
        _mm_add_epi32(oldest, _mm_xor_si128(mixed, _mm_srli_epi32::<3>(old)))
    };
    let sum = _mm_add_epi32(first, _mm_alignr_epi8::<4>(latest, recent));
    words[group % 4] = _mm_sha256msg2_epu32(sum, latest);
}

/// Computes four rounds. `words` are the words of the message schedule plus the constants.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3,sse2")]
fn four_rounds(abef: &mut __m128i, cdgh: &mut __m128i, words: __m128i) {
    // Two rounds turn `abef` into the next `cdgh`.
    *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, words);
    let upper = _mm_shuffle_epi32::<0b1110>(words);
    *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, upper);
}

/// Loads four words, which are big-endian in a block.
#[inline]
#[target_feature(enable = "ssse3,sse2")]
fn load(bytes: &[u8; 16]) -> __m128i {
    let bytes = u128::from_le_bytes(*bytes);
    let register = _mm_set_epi64x((bytes >> 64) as i64, bytes as i64);
    let reversed = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    _mm_shuffle_epi8(register, reversed)
}

/// Returns a register with these words, the lowest first.
#[inline]
#[target_feature(enable = "sse2")]
fn register(words: [u32; 4]) -> __m128i {
    let [first, second, third, fourth] = words.map(u32::cast_signed);
    _mm_set_epi32(fourth, third, second, first)
}

/// Returns the words of a register, the lowest first.
#[inline]
#[target_feature(enable = "sse4.1,sse2")]
fn words_of(register: __m128i) -> [u32; 4] {
    [
        _mm_extract_epi32::<0>(register),
        _mm_extract_epi32::<1>(register),
        _mm_extract_epi32::<2>(register),
        _mm_extract_epi32::<3>(register),
    ]
    .map(i32::cast_unsigned)
}

#[cfg(test)]
mod tests;
