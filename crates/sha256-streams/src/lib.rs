//! The compression function of SHA-256, for several streams at the same time (FIPS 180-4).
//!
//! The blocks of one stream are hashed one after another, and each step of a block needs the result
//! of the one before. This leaves most of the processor's arithmetic units idle. A [`Compressor`]
//! keeps them busy with the blocks of several streams: where the processor has instructions for
//! SHA-256, those of two streams are interleaved; elsewhere each stream takes a lane of the vector
//! registers. [`hash_jobs`] assigns streams to them.
//!
//! The crate stands by itself so that it is optimised in every build: unoptimised, it hashes 8 MB
//! per second.
//!
//! # Examples
//!
//! ```
//! use sha256_streams::{Compressor, INITIAL, Job, digest, hash_jobs, padded};
//!
//! let inputs = ["a", "abc"];
//! let jobs = inputs.iter().enumerate().map(|(owner, input)| Job {
//!     owner,
//!     state: INITIAL,
//!     head: &[],
//!     body: &[],
//!     tail: padded(input.as_bytes(), input.len() as u64),
//! });
//! let mut digests = [[0; 32]; 2];
//! hash_jobs(Compressor::in_lanes(), jobs, |owner, state| digests[owner] = digest(&state));
//! assert_eq!(digests[0][..4], [0xca, 0x97, 0x81, 0x12]);
//! assert_eq!(digests[1][..4], [0xba, 0x78, 0x16, 0xbf]);
//! ```

// - `scheduler`: assigns streams to lanes.
// - `processor`: whether the processor has instructions for SHA-256; `instructions`: compresses
//   blocks of one or two streams by them.
// - `lanes`: compresses a block of each of several streams in vector registers.
// - `single`: compresses the blocks of one stream in vector registers.
// - `message_schedule`: computes the message schedules of several blocks.

use std::fmt;

use fearless_simd::Level;

use processor::ShaInstructions;

pub use scheduler::{Job, hash_jobs};

/// Unrolls 16 rounds. The compiler does not unroll a loop, and would move the whole state by a
/// register in each iteration.
macro_rules! sixteen_times {
    ($at:ident => $body:expr) => {
        sixteen_times!($at => $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($at:ident => $body:expr; $($number:literal)*) => {
        $({
            let $at: usize = $number;
            $body;
        })*
    };
}

#[cfg(target_arch = "x86_64")]
mod instructions;
mod lanes;
mod message_schedule;
mod processor;
mod scheduler;
mod single;

/// The unit that the compression function takes.
pub type Block = [u8; 64];

/// The chaining value.
pub type State = [u32; 8];

/// The number of lanes of the widest registers.
const MAX_LANES: usize = 16;

/// The state before the first block (FIPS 180-4, 5.3.3).
#[rustfmt::skip]
pub const INITIAL: State = [
    0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
];

/// The constants of the rounds (FIPS 180-4, 4.2.2).
#[rustfmt::skip]
const ROUNDS: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

/// Compresses blocks of several streams at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Compressor(Kind);

/// The kind of a [`Compressor`].
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// By these vector registers, with a lane for each stream.
    Lanes(Level),
    /// By the processor's instructions, interleaved for two streams. Three have no more, because
    /// two keep the unit that computes the rounds busy.
    Interleaved(ShaInstructions),
}

impl Compressor {
    /// Returns the one that hashes streams in the lanes of the widest vector registers of this
    /// machine.
    #[must_use]
    pub fn in_lanes() -> Self {
        Self(Kind::Lanes(Level::new()))
    }

    /// Returns the one that interleaves the instructions for SHA-256 of two streams. `None` if the
    /// processor has none, or is not an x86-64.
    #[must_use]
    pub fn interleaved() -> Option<Self> {
        Some(Self(Kind::Interleaved(ShaInstructions::detect()?)))
    }

    /// Returns all of this machine.
    pub fn all() -> impl Iterator<Item = Self> {
        let in_lanes = levels().map(|level| Self(Kind::Lanes(level)));
        Self::interleaved().into_iter().chain(in_lanes)
    }

    /// Returns the number of streams that it compresses at the same time, at most 16.
    #[must_use]
    pub fn n_streams(self) -> usize {
        match self.0 {
            Kind::Lanes(level) => width(level),
            Kind::Interleaved(_) => 2,
        }
    }

    /// Returns whether each stream has a lane of vector registers, so that several streams take no
    /// longer than one.
    #[must_use]
    pub const fn has_vector_lanes(self) -> bool {
        matches!(self.0, Kind::Lanes(_))
    }

    /// Returns the number of streams from which compressing them together is faster than one after
    /// another.
    fn worthwhile(self) -> usize {
        match self.0 {
            Kind::Interleaved(_) => 2,
            Kind::Lanes(level) => match width(level) {
                5..=8 => 2,
                ..=4 | 9.. => 3,
            },
        }
    }

    /// Hashes the same number of blocks of each stream: as many as the stream with the fewest has.
    ///
    /// # Panics
    ///
    /// If the number of streams is not [`n_streams`](Self::n_streams).
    fn compress(self, states: &mut [State], blocks: &[&[Block]]) {
        match self.0 {
            Kind::Lanes(level) => lanes::compress(level, states, blocks),
            Kind::Interleaved(instructions) => instructions.compress(states, blocks),
        }
    }

    /// Hashes all blocks of one stream.
    fn compress_one(self, state: &mut State, blocks: &[Block]) {
        match self.0 {
            Kind::Lanes(level) => single::compress(level, state, blocks),
            Kind::Interleaved(instructions) => {
                instructions.compress(std::slice::from_mut(state), &[blocks]);
            }
        }
    }
}

impl fmt::Display for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Interleaved(_) => f.write_str("two interleaved"),
            Kind::Lanes(level) => {
                // A level's debug form begins with its name: `Avx2(Avx2)`.
                let name = format!("{level:?}");
                let name = name.split('(').next().unwrap_or_default();
                write!(f, "{} lanes of {name}", self.n_streams())
            }
        }
    }
}

/// Returns all vector registers of this machine.
fn levels() -> impl Iterator<Item = Level> {
    let widest = Level::new();
    #[cfg(target_arch = "x86_64")]
    let levels = [
        widest.as_sse2().map(Level::Sse2),
        widest.as_sse4_2().map(Level::Sse4_2),
        widest.as_avx2().map(Level::Avx2),
        widest.as_avx512().map(Level::Avx512),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let levels = [Some(widest)];
    levels.into_iter().flatten()
}

/// Returns the number of 32-bit lanes of these registers.
fn width(level: Level) -> usize {
    fearless_simd::dispatch!(level, simd => message_schedule::width(simd))
}

/// Returns the digest of a stream, given the state after its last block.
#[must_use]
pub fn digest(state: &State) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

/// Returns the last blocks of a stream of `n_bytes`: `rest`, which is less than a block, and the
/// padding. The second value is their number, one or two.
///
/// # Panics
///
/// If `rest` is a block or longer.
#[must_use]
pub fn padded(rest: &[u8], n_bytes: u64) -> ([Block; 2], usize) {
    let mut blocks = [[0; 64]; 2];
    let bytes = blocks.as_flattened_mut();
    bytes[..rest.len()].copy_from_slice(rest);
    bytes[rest.len()] = 0x80;
    // The bit behind the message and its length, 8 bytes, have to fit behind the rest.
    let n_blocks = if rest.len() < 64 - 8 { 1 } else { 2 };
    blocks[n_blocks - 1][64 - 8..].copy_from_slice(&(n_bytes << 3).to_be_bytes());
    (blocks, n_blocks)
}

#[cfg(test)]
mod tests;
