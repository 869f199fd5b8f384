//! Finds out whether the processor has instructions for SHA-256, and calls the functions that use
//! them.

#![allow(
    unsafe_code,
    reason = "a function for some processors is unsafe to call; the block says why it is sound"
)]

use super::{Block, State};

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::ShaInstructions;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use other::ShaInstructions;

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::is_x86_feature_detected;

    use super::{Block, State};
    use crate::instructions;

    /// The proof that the processor has the instructions.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct ShaInstructions {
        /// Whether it also has the instructions of AVX-512 for 16 bytes.
        has_avx512: bool,
    }

    impl ShaInstructions {
        /// Returns a proof if the processor has the instructions.
        pub(crate) fn detect() -> Option<Self> {
            let has_all = is_x86_feature_detected!("sha")
                && is_x86_feature_detected!("sse4.1")
                && is_x86_feature_detected!("ssse3")
                && is_x86_feature_detected!("sse2");
            let has_avx512 =
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl");
            has_all.then_some(Self { has_avx512 })
        }

        /// Returns the same processor without AVX-512.
        #[cfg(test)]
        #[allow(clippy::unused_self, reason = "the value is the proof")]
        pub(crate) const fn without_avx512(self) -> Self {
            Self { has_avx512: false }
        }

        /// Hashes the same number of blocks of each stream: as many as the stream with the fewest
        /// has.
        ///
        /// # Panics
        ///
        /// If the number of streams is neither one nor two, or differs from that of the states.
        pub(crate) fn compress(self, states: &mut [State], blocks: &[&[Block]]) {
            // SAFETY: each function is safe on a processor that has its instructions. `detect`
            // found them, and nothing else makes a value of this type with more of them.
            unsafe {
                if self.has_avx512 {
                    instructions::compress_with_avx512(states, blocks);
                } else {
                    instructions::compress(states, blocks);
                }
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod other {
    use super::{Block, State};

    /// A proof that no processor of this architecture can give.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum ShaInstructions {}

    impl ShaInstructions {
        /// Returns no proof.
        pub(crate) const fn detect() -> Option<Self> {
            None
        }

        /// Is never called.
        pub(crate) fn compress(self, _: &mut [State], _: &[&[Block]]) {
            match self {}
        }
    }
}
