//! [`BlockMasks`]: which bytes of a block need work, one bit for each byte, the lowest for the
//! first.

#![allow(
    clippy::inline_always,
    reason = "the compiler removes the code of unused options only from inlined code"
)]

use fearless_simd::prelude::*;
use fearless_simd::u8x64;

use super::{FormatOptions, Numbering};

/// How many bytes are processed together: as many as a mask has bits.
pub(super) const BLOCK: usize = 64;

/// A block and the one behind it, so that a copy of a block's length may start at any byte.
pub(super) const WINDOW: usize = 2 * BLOCK;

/// The state before the next byte. Each field is 0 or 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineState {
    /// Whether the next byte begins a line.
    begins_line: u64,
    /// Whether the previous line was blank, so that another one is squeezed.
    after_blank: u64,
}

impl Default for LineState {
    /// Returns the state before the first line.
    fn default() -> Self {
        Self {
            begins_line: 1,
            after_blank: 0,
        }
    }
}

/// The bytes of a block that need work.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockMasks {
    /// The bytes that a line number precedes.
    pub(super) numbered: u64,
    /// The newlines that `$` precedes.
    pub(super) ends: u64,
    /// The newlines of squeezed lines.
    pub(super) squeezed: u64,
    /// The carriage returns to show because a newline follows.
    pub(super) returns: u64,
    /// The bytes to show in caret notation, whatever follows.
    pub(super) shown: u64,
}

impl BlockMasks {
    /// Scans the first `n` bytes of a window, at most a block, and advances `line` past them.
    #[inline(always)]
    pub(super) fn scan<S: Simd>(
        simd: S,
        window: &[u8; WINDOW],
        n: usize,
        options: FormatOptions,
        line: &mut LineState,
    ) -> Self {
        let bytes = u8x64::from_slice(simd, &window[..BLOCK]);
        let in_use = u64::MAX >> (BLOCK - n);
        let newlines = equal(bytes, b'\n') & in_use;
        let beginnings = (newlines << 1 | line.begins_line) & in_use;
        let blank = newlines & beginnings;
        let squeezed = if options.squeeze_blank {
            blank & (blank << 1 | line.after_blank)
        } else {
            0
        };
        let numbered = match options.numbering {
            Numbering::None => 0,
            Numbering::Every => beginnings & !squeezed,
            Numbering::NonBlank => beginnings & !newlines,
        };
        let ends = if options.show_ends {
            newlines & !squeezed
        } else {
            0
        };
        let returns = if options.shows_crlf() {
            let newline_after = u64::from(window[BLOCK] == b'\n') << (BLOCK - 1);
            equal(bytes, b'\r') & ((newlines >> 1) | newline_after)
        } else {
            0
        };
        let mut shown = 0;
        if options.show_nonprinting {
            shown |= nonprinting(bytes) & !newlines & !equal(bytes, b'\t');
        }
        if options.show_tabs {
            shown |= equal(bytes, b'\t');
        }
        *line = LineState {
            begins_line: newlines >> (n - 1) & 1,
            after_blank: blank >> (n - 1) & 1,
        };
        Self {
            numbered,
            ends,
            squeezed,
            returns,
            shown: shown & in_use,
        }
    }
}

/// Returns where `byte` is.
#[inline(always)]
fn equal<S: Simd>(bytes: u8x64<S>, byte: u8) -> u64 {
    bytes.simd_eq(byte).to_bitmask()
}

/// Returns where nonprinting bytes are: 0 to 31, and 127 and above.
#[inline(always)]
fn nonprinting<S: Simd>(bytes: u8x64<S>) -> u64 {
    // This maps the 95 printing bytes to 0 to 94, and all others to values above.
    let from_space = bytes - b' ';
    from_space.max(95_u8).simd_eq(from_space).to_bitmask()
}
