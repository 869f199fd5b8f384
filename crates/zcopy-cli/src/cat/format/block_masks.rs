//! Where in a block something happens: one bit a byte, the lowest for the first.

#![allow(
    clippy::inline_always,
    reason = "a caller who knows what is not asked for has it left out only of what is compiled into it"
)]

use fearless_simd::prelude::*;
use fearless_simd::u8x64;

use super::{Look, Numbering};

/// How many bytes are looked at together: as many as a mask has bits.
pub(super) const BLOCK: usize = 64;

/// A block and what comes after it: from any of its bytes on, a whole block can be copied.
pub(super) const WINDOW: usize = 2 * BLOCK;

/// What the bytes so far say of the next one: 1 if it is so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// It begins a line.
    begins: u64,
    /// The line before it was blank, so that another one would be squeezed.
    after_blank: u64,
}

impl Default for Line {
    /// In front of the first line.
    fn default() -> Self {
        Self {
            begins: 1,
            after_blank: 0,
        }
    }
}

/// What happens at which bytes of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// A line number goes before these.
    pub(super) numbers: u64,
    /// A `$` goes before these newlines.
    pub(super) ends: u64,
    /// These newlines are squeezed away.
    pub(super) dropped: u64,
    /// These carriage returns are shown, because a newline follows.
    pub(super) returns: u64,
    /// These bytes are shown as something else wherever they stand.
    pub(super) shown: u64,
}

impl Marks {
    /// Looks at the first `n` bytes of a window, which are at most a block, and moves `line` behind them.
    #[inline(always)]
    pub(super) fn of<S: Simd>(
        simd: S,
        window: &[u8; WINDOW],
        n: usize,
        look: Look,
        line: &mut Line,
    ) -> Self {
        let bytes = u8x64::from_slice(simd, &window[..BLOCK]);
        let in_use = u64::MAX >> (BLOCK - n);
        let newlines = equal(bytes, b'\n') & in_use;
        let beginnings = (newlines << 1 | line.begins) & in_use;
        let blank = newlines & beginnings;
        let dropped = if look.squeeze_blank {
            blank & (blank << 1 | line.after_blank)
        } else {
            0
        };
        let numbers = match look.numbering {
            Numbering::None => 0,
            Numbering::Every => beginnings & !dropped,
            Numbering::NonBlank => beginnings & !newlines,
        };
        let ends = if look.show_ends {
            newlines & !dropped
        } else {
            0
        };
        let returns = if look.shows_crlf() {
            let newline_after = u64::from(window[BLOCK] == b'\n') << (BLOCK - 1);
            equal(bytes, b'\r') & ((newlines >> 1) | newline_after)
        } else {
            0
        };
        let mut shown = 0;
        if look.show_nonprinting {
            shown |= nonprinting(bytes) & !newlines & !equal(bytes, b'\t');
        }
        if look.show_tabs {
            shown |= equal(bytes, b'\t');
        }
        *line = Line {
            begins: newlines >> (n - 1) & 1,
            after_blank: blank >> (n - 1) & 1,
        };
        Self {
            numbers,
            ends,
            dropped,
            returns,
            shown: shown & in_use,
        }
    }
}

/// Where `byte` is.
#[inline(always)]
fn equal<S: Simd>(bytes: u8x64<S>, byte: u8) -> u64 {
    bytes.simd_eq(byte).to_bitmask()
}

/// Where bytes are that do not print: 0 to 31, and 127 and above.
#[inline(always)]
fn nonprinting<S: Simd>(bytes: u8x64<S>) -> u64 {
    // The 95 that do are 0 to 94 then, and all others are above.
    let from_space = bytes - b' ';
    from_space.max(95_u8).simd_eq(from_space).to_bitmask()
}
