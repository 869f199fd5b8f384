//! Where bytes are made: put one behind the other, with a few too many copied each time.

use super::line_number::LineNumber;
use super::marks::{BLOCK, Marks, WINDOW};
use super::shown::{Table, visible};

/// The most that is made of a block, which is a number and `$` for each of 64 newlines, and what a last copy needs behind it.
const ROOM: usize = BLOCK * (LineNumber::WIDEST + 2) + BLOCK;

/// A block with more bytes to show than this is translated byte by byte: so many copies would take longer.
const DENSE: u32 = 10;

/// The bytes made so far.
#[derive(Debug)]
pub(super) struct Made<'a> {
    room: &'a mut [u8],
    len: usize,
}

impl<'a> Made<'a> {
    pub(super) fn new(room: &'a mut [u8]) -> Self {
        Self { room, len: 0 }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether another block has room, whatever it is made into.
    #[inline(always)]
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
        table: &Table,
    ) {
        let is_dense = marks.shown != 0 && marks.shown.count_ones() > DENSE;
        let visibly = marks.returns | if is_dense { 0 } else { marks.shown };
        let mut events = marks.numbers | marks.ends | marks.dropped | visibly;
        let mut from = 0;
        while events != 0 {
            let at = events.trailing_zeros() as usize;
            let event = 1 << at;
            events ^= event;
            self.put_content(window, from, at, is_dense, table);
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
                self.put(shown.text, shown.len.into());
                from = at + 1;
            }
            if marks.dropped & event != 0 {
                from = at + 1;
            }
        }
        self.put_content(window, from, n, is_dense, table);
    }

    #[inline(always)]
    fn put_content(
        &mut self,
        window: &[u8; WINDOW],
        from: usize,
        to: usize,
        is_dense: bool,
        table: &Table,
    ) {
        if is_dense {
            self.put_by_table(&window[from..to], table);
        } else {
            // A whole block is copied, and what is too much written over.
            self.room[self.len..self.len + BLOCK].copy_from_slice(&window[from..from + BLOCK]);
            self.len += to - from;
        }
    }

    /// Puts what the bytes are shown as.
    #[inline(never)]
    fn put_by_table(&mut self, bytes: &[u8], table: &Table) {
        // The length is kept out of memory, where the next byte would wait for it.
        let (room, mut len) = (&mut *self.room, self.len);
        for &byte in bytes {
            let shown = &table[usize::from(byte)];
            room[len..len + shown.text.len()].copy_from_slice(&shown.text);
            len += usize::from(shown.len);
        }
        self.len = len;
    }

    /// Puts the first `n` of these bytes, by a copy of them all.
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N], n: usize) {
        self.room[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += n;
    }

    /// Puts a line number and its tab.
    #[inline(always)]
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
