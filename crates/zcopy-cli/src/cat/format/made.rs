//! Where bytes are made: put one behind the other, with a few too many copied each time.

use super::line_number::LineNumber;
use super::marks::{BLOCK, WINDOW};
use super::shown::{SHOWN, Shown};

/// The most that is made of a block, which is a number and `$` for each of 64 newlines, and what a last copy needs behind it.
const ROOM: usize = BLOCK * (LineNumber::WIDEST + 2) + BLOCK;

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
    pub(super) fn has_room_for_a_block(&self) -> bool {
        self.room.len() - self.len >= ROOM
    }

    /// Puts the first `n` of these bytes, by a copy of them all.
    #[inline]
    pub(super) fn put<const N: usize>(&mut self, bytes: [u8; N], n: usize) {
        self.room[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += n;
    }

    /// Puts what stands between two places of a window, which is less than a block, by a copy of a whole one.
    #[inline]
    pub(super) fn put_as_it_is(&mut self, window: &[u8; WINDOW], from: usize, to: usize) {
        self.room[self.len..self.len + BLOCK].copy_from_slice(&window[from..from + BLOCK]);
        self.len += to - from;
    }

    /// Puts what stands between two places of a window, byte by byte, and of the bytes that `shown` has what they are shown as.
    #[inline]
    pub(super) fn put_by_table(
        &mut self,
        window: &[u8; WINDOW],
        from: usize,
        to: usize,
        shown: u64,
    ) {
        let mut shown = shown.unbounded_shr(from as u32);
        for &byte in &window[from..to] {
            self.put_shown(byte, shown & 1 == 1);
            shown >>= 1;
        }
    }

    /// Puts a byte, or what it is shown as.
    #[inline]
    pub(super) fn put_shown(&mut self, byte: u8, visibly: bool) {
        let Shown { text, len } = SHOWN[usize::from(visibly)][usize::from(byte)];
        self.put(text, len.into());
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
