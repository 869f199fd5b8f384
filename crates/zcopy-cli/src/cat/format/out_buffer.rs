//! Where bytes are made: put one behind the other, with a few too many copied each time.

#![allow(
    clippy::inline_always,
    reason = "a caller who knows what is not asked for has it left out only of what is compiled into it"
)]

use super::Look;
use super::block_masks::{BLOCK, Marks, WINDOW};
use super::caret::{LONGEST_TEXT, Table, table, visible};
use super::line_number::LineNumber;

/// The most that is made of a block, which is a number and `$` for each of 64 newlines, and what the last text or copy may write
/// over behind it.
pub(super) const ROOM: usize = BLOCK * (LineNumber::WIDEST + 2) + LONGEST_TEXT * BLOCK;

/// A block with more bytes to show than this is translated byte by byte: so many copies would take longer.
const DENSE: u32 = 10;

/// The bytes made so far.
#[derive(Debug)]
pub(super) struct Made<'a> {
    room: &'a mut [u8],
    len: usize,
}

impl<'a> Made<'a> {
    /// None yet, of those that go to `room`.
    pub(super) fn new(room: &'a mut [u8]) -> Self {
        Self { room, len: 0 }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether another block has room, whatever it is made into.
    #[inline]
    pub(super) fn has_room_for_a_block(&self) -> bool {
        self.room.len() - self.len >= ROOM
    }

    /// Puts what becomes of the first `n` bytes of a window.
    #[inline(always)]
    pub(super) fn put_block(
        &mut self,
        window: &[u8; WINDOW],
        n: usize,
        marks: Marks,
        number: &mut LineNumber,
        look: Look,
    ) {
        let is_dense = marks.shown != 0 && is_dense(marks.shown);
        let (translation, visibly) = if is_dense {
            (Some(table(look)), marks.returns)
        } else {
            (None, marks.returns | marks.shown)
        };
        let mut events = marks.numbers | marks.ends | marks.dropped | visibly;
        let mut from = 0;
        while events != 0 {
            let at = events.trailing_zeros() as usize;
            let event = 1 << at;
            events ^= event;
            self.put_content(window, from, at, translation);
            from = at;
            if marks.numbers & event != 0 {
                number.advance();
                self.put_number(number);
            }
            if marks.ends & event != 0 {
                self.put(*b"$", 1);
            }
            if visibly & event != 0 {
                let shown = visible(window[at]);
                self.put(shown.text, shown.len as usize);
                from = at + 1;
            }
            if marks.dropped & event != 0 {
                from = at + 1;
            }
        }
        self.put_content(window, from, n, translation);
    }

    /// Puts what stands between two places of a window.
    #[inline(always)]
    fn put_content(
        &mut self,
        window: &[u8; WINDOW],
        from: usize,
        to: usize,
        translation: Option<&Table>,
    ) {
        self.len += if let Some(table) = translation {
            translate(&window[from..to], table, &mut self.room[self.len..])
        } else {
            // What this copies too much is written over by what comes next.
            self.room[self.len..self.len + BLOCK].copy_from_slice(&window[from..from + BLOCK]);
            to - from
        };
    }

    /// Puts the first `n` of these bytes, by a copy of them all.
    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N], n: usize) {
        self.room[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += n;
    }

    /// Puts a line number and its tab.
    #[inline]
    pub(super) fn put_number(&mut self, number: &LineNumber) {
        if let Some(beyond) = number.beyond_columns() {
            for digit in beyond.to_string().bytes() {
                self.put([digit], 1);
            }
        }
        let (columns, n) = number.columns();
        self.put(columns, n);
    }
}

/// Whether a block with these bytes to show is translated byte by byte.
///
/// It stands apart, or every block would be counted: without an instruction for it, that takes a dozen.
#[inline(never)]
fn is_dense(shown: u64) -> bool {
    shown.count_ones() > DENSE
}

/// Puts what bytes are shown as at the beginning of `room`, and says how long that is.
///
/// It stands apart, or the lengths in the loops that use it would not be kept in registers.
#[inline(never)]
fn translate(bytes: &[u8], table: &Table, room: &mut [u8]) -> usize {
    // Every byte of a block has a place there. A length that the compiler knows makes one comparison of two.
    let room = &mut room[..LONGEST_TEXT * BLOCK];
    let mut len = 0;
    for &byte in bytes {
        let shown = &table[usize::from(byte)];
        let Some(place) = room[len..].first_chunk_mut() else {
            break;
        };
        *place = shown.text;
        len += shown.len as usize;
    }
    len
}
