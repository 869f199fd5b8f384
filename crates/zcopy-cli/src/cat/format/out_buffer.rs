//! [`OutBuffer`]: the formatted bytes. Each write may copy a few bytes too many, which the next
//! covers.

#![allow(
    clippy::inline_always,
    reason = "the compiler removes the code of unused options only from inlined code"
)]

use super::FormatOptions;
use super::block_masks::{BLOCK, BlockMasks, WINDOW};
use super::caret::{CaretTable, MAX_CARET_LEN, caret, table};
use super::line_number::LineNumber;

/// The space that a block needs: a number and `$` for each of 64 newlines, and the excess of the
/// last write.
pub(super) const MAX_BLOCK_OUTPUT: usize = BLOCK * (LineNumber::WIDEST + 2) + MAX_CARET_LEN * BLOCK;

/// A block with more than this many bytes to show is translated byte by byte. That is faster than
/// as many copies.
const MAX_SPARSE: u32 = 10;

/// The formatted bytes.
#[derive(Debug)]
pub(super) struct OutBuffer<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> OutBuffer<'a> {
    /// Returns an empty buffer in these bytes.
    pub(super) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, len: 0 }
    }

    /// Returns how many bytes have been written.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is space for any block.
    #[inline]
    pub(super) fn has_space_for_block(&self) -> bool {
        self.bytes.len() - self.len >= MAX_BLOCK_OUTPUT
    }

    /// Formats the first `n` bytes of a window.
    #[inline(always)]
    pub(super) fn push_block(
        &mut self,
        window: &[u8; WINDOW],
        n: usize,
        masks: BlockMasks,
        number: &mut LineNumber,
        options: FormatOptions,
    ) {
        let is_dense = masks.shown != 0 && is_dense(masks.shown);
        let (translation, visibly) = if is_dense {
            (Some(table(options)), masks.returns)
        } else {
            (None, masks.returns | masks.shown)
        };
        let mut events = masks.numbered | masks.ends | masks.squeezed | visibly;
        let mut from = 0;
        while events != 0 {
            let at = events.trailing_zeros() as usize;
            let event = 1 << at;
            events ^= event;
            self.push_content(window, from, at, translation);
            from = at;
            if masks.numbered & event != 0 {
                number.advance();
                self.push_number(number);
            }
            if masks.ends & event != 0 {
                self.push(*b"$", 1);
            }
            if visibly & event != 0 {
                let caret = caret(window[at]);
                self.push(caret.text, caret.len as usize);
                from = at + 1;
            }
            if masks.squeezed & event != 0 {
                from = at + 1;
            }
        }
        self.push_content(window, from, n, translation);
    }

    /// Writes the bytes of a window between two indices.
    #[inline(always)]
    fn push_content(
        &mut self,
        window: &[u8; WINDOW],
        from: usize,
        to: usize,
        translation: Option<&CaretTable>,
    ) {
        self.len += if let Some(table) = translation {
            translate(&window[from..to], table, &mut self.bytes[self.len..])
        } else {
            // The next write covers the excess.
            self.bytes[self.len..self.len + BLOCK].copy_from_slice(&window[from..from + BLOCK]);
            to - from
        };
    }

    /// Writes the first `n` of these bytes, by a copy of all.
    #[inline]
    fn push<const N: usize>(&mut self, bytes: [u8; N], n: usize) {
        self.bytes[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += n;
    }

    /// Writes a line number and its tab.
    #[inline]
    pub(super) fn push_number(&mut self, number: &LineNumber) {
        if let Some(overflow) = number.overflow() {
            for digit in overflow.to_string().bytes() {
                self.push([digit], 1);
            }
        }
        let (columns, n) = number.columns();
        self.push(columns, n);
    }
}

/// Returns whether a block is translated byte by byte. `shown` has its bytes to show.
///
/// It is not inlined, because the compiler would count the bits of every block, which takes a dozen
/// instructions without `popcnt`.
#[inline(never)]
fn is_dense(shown: u64) -> bool {
    shown.count_ones() > MAX_SPARSE
}

/// Writes the texts of bytes to the beginning of `out`, and returns their length.
///
/// It is not inlined, because the lengths in the loops of its callers would not stay in registers.
#[inline(never)]
fn translate(bytes: &[u8], table: &CaretTable, out: &mut [u8]) -> usize {
    // All texts of a block fit. A constant length saves one of two comparisons.
    let out = &mut out[..MAX_CARET_LEN * BLOCK];
    let mut len = 0;
    for &byte in bytes {
        let caret = &table[usize::from(byte)];
        let Some(space) = out[len..].first_chunk_mut() else {
            break;
        };
        *space = caret.text;
        len += caret.len as usize;
    }
    len
}
