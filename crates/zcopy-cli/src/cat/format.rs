//! What `zc-cat` makes of bytes: lines numbered, blank ones squeezed, and the invisible shown.
//!
//! Bytes are looked at in blocks of 64. `Marks` says by one bit a byte where something happens; everything between two such
//! places is copied as it is, 64 bytes at a time, because a copy of a known length is cheaper than one of the right length. What it
//! copies too much is written over by what comes next.

#![allow(
    clippy::inline_always,
    reason = "vectors are those of the function that the code ends up in"
)]

use fearless_simd::{Level, Simd, dispatch};
use zcopy::{Filter, Filtered, Input, Remaining};

use block_masks::{BLOCK, Line, Marks, WINDOW};
use line_number::LineNumber;
use out_buffer::{Made, ROOM};

mod block_masks;
mod caret;
mod line_number;
mod out_buffer;

#[cfg(test)]
mod tests;

/// How many bytes [`Format::line`] makes at once: room for a few blocks.
const DESK: usize = 4096;

// What may be asked for, as sets that a loop over blocks is compiled for.
const NUMBERS: u8 = 1;
const BLANKS: u8 = 2;
const ENDS: u8 = 4;
const BYTES: u8 = 8;
const ALL: u8 = NUMBERS | BLANKS | ENDS | BYTES;

/// What is done to bytes: the options of GNU cat that change them.
///
/// # Examples
///
/// ```
/// use zcopy_cli::cat::format::{Look, Numbering};
///
/// let look = Look {
///     numbering: Numbering::NonBlank,
///     ..Look::default()
/// };
/// assert!(!look.is_plain());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option that is given or not, and they go with each other in every way"
)]
pub struct Look {
    /// Which lines are numbered: `-n` and `-b`.
    pub numbering: Numbering,
    /// Of several blank lines on end, only the first is kept: `-s`.
    pub squeeze_blank: bool,
    /// `$` in front of a newline, and `^M` for a carriage return in front of that: `-E`.
    pub show_ends: bool,
    /// `^I` for a tab: `-T`.
    pub show_tabs: bool,
    /// `^X` and `M-X` for what does not print, except tabs and newlines: `-v`.
    pub show_nonprinting: bool,
}

/// Which lines are numbered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// None.
    #[default]
    None,
    /// Every line that is kept.
    Every,
    /// Every line that has more than its newline.
    NonBlank,
}

impl Look {
    /// Whether bytes stay as they are.
    #[must_use]
    pub fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// Only some of what is asked for. Where `only` is constant, the compiler knows what is not.
    #[inline]
    fn narrowed(self, only: u8) -> Self {
        Self {
            numbering: if only & NUMBERS != 0 {
                self.numbering
            } else {
                Numbering::None
            },
            squeeze_blank: self.squeeze_blank && only & BLANKS != 0,
            show_ends: self.show_ends && only & ENDS != 0,
            show_tabs: self.show_tabs && only & BYTES != 0,
            show_nonprinting: self.show_nonprinting && only & BYTES != 0,
        }
    }

    /// Whether nothing else is asked for.
    fn asks_only(self, only: u8) -> bool {
        self == self.narrowed(only)
    }

    /// Whether a carriage return is shown in front of a newline, and nowhere else.
    fn shows_crlf(self) -> bool {
        self.show_ends && !self.show_nonprinting
    }
}

/// Changes bytes as a [`Look`] asks, from one call to the next, and from one file to the next.
///
/// # Examples
///
/// ```
/// use zcopy_cli::cat::format::{Format, Look};
///
/// let mut format = Format::new(Look {
///     show_ends: true,
///     show_tabs: true,
///     ..Look::default()
/// });
/// let mut out = Vec::new();
/// format.line(b"to\tbe\r\n", &mut out);
/// assert_eq!(out, b"to^Ibe^M$\n");
/// ```
#[derive(Clone, Debug)]
pub struct Format {
    look: Look,
    /// What the processor offers.
    level: Level,
    line: Line,
    number: LineNumber,
    /// Where [`Format::line`] has its bytes made.
    desk: Vec<u8>,
}

impl Format {
    /// Stands at the beginning of the first line.
    #[must_use]
    pub fn new(look: Look) -> Self {
        Self::at(Level::new(), look)
    }

    /// The same, with no more than these of the processor's vectors.
    fn at(level: Level, look: Look) -> Self {
        Self {
            look,
            level,
            line: Line::default(),
            number: LineNumber::default(),
            desk: Vec::new(),
        }
    }

    /// Formats one line with its newline, or a part of it without, and appends it to `out`.
    ///
    /// Returns how many of the appended bytes stand before the content: the line number, or 0. Returns `None` if the line was
    /// squeezed away, and nothing appended.
    ///
    /// The bytes are those that [`Filter::filter`] makes, if a carriage return and its newline come in one part.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::cat::format::{Format, Look, Numbering};
    ///
    /// let mut format = Format::new(Look {
    ///     numbering: Numbering::Every,
    ///     squeeze_blank: true,
    ///     ..Look::default()
    /// });
    /// let mut out = Vec::new();
    /// assert_eq!(format.line(b"to be\n", &mut out), Some(7));
    /// assert_eq!(format.line(b"\n", &mut out), Some(7));
    /// assert_eq!(format.line(b"\n", &mut out), None);
    /// assert_eq!(format.line(b"or ", &mut out), Some(7));
    /// assert_eq!(format.line(b"not\n", &mut out), Some(0));
    /// assert_eq!(out, b"     1\tto be\n     2\t\n     3\tor not\n");
    /// ```
    pub fn line(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let (number_before, len_before) = (self.number, out.len());
        let mut desk = std::mem::take(&mut self.desk);
        desk.resize(DESK, 0);
        let mut rest = bytes;
        while !rest.is_empty() {
            let input = Input::new(rest, Remaining::End);
            let Filtered {
                consumed: taken,
                produced: made,
            } = self.filter(input, &mut desk);
            out.extend_from_slice(&desk[..made]);
            rest = &rest[taken..];
        }
        self.desk = desk;
        if out.len() == len_before && !bytes.is_empty() {
            return None;
        }
        Some(if self.number == number_before {
            0
        } else {
            self.number.width()
        })
    }

    /// Formats as many blocks as have another one behind them.
    #[inline(always)]
    fn blocks<S: Simd, const ONLY: u8>(
        &mut self,
        simd: S,
        bytes: &[u8],
        room: &mut [u8],
    ) -> Filtered {
        let look = self.look.narrowed(ONLY);
        // What changes with each block is kept out of memory.
        let (mut line, mut number) = (self.line, self.number);
        let mut made = Made::new(room);
        let mut taken = 0;
        while made.has_room_for_a_block()
            && let Some(window) = bytes[taken..].first_chunk()
        {
            let marks = Marks::of(simd, window, BLOCK, look, &mut line);
            made.put_block(window, BLOCK, marks, &mut number, look);
            taken += BLOCK;
        }
        (self.line, self.number) = (line, number);
        Filtered {
            consumed: taken,
            produced: made.len(),
        }
    }

    /// As [`Format::blocks`], for whoever asks for ends alone.
    #[inline(always)]
    fn ends<S: Simd>(&mut self, simd: S, bytes: &[u8], room: &mut [u8]) -> Filtered {
        let look = self.look.narrowed(ENDS);
        let (mut line, mut number) = (self.line, self.number);
        let (mut taken, mut made) = (0, 0);
        while let Some(window) = bytes[taken..].first_chunk::<WINDOW>()
            && let Some(place) = room[made..].first_chunk_mut::<ROOM>()
        {
            let marks = Marks::of(simd, window, BLOCK, look, &mut line);
            taken += BLOCK;
            if marks.returns != 0 {
                let mut block = Made::new(place);
                block.put_block(window, BLOCK, marks, &mut number, look);
                made += block.len();
                continue;
            }
            let (mut len, mut from) = (0, 0);
            let mut ends = marks.ends;
            place[..BLOCK].copy_from_slice(&window[..BLOCK]);
            loop {
                // Without one, the end of the block is taken for one of no length: most blocks have one or none, and which it is
                // no processor guesses.
                let at = ends.trailing_zeros() as usize;
                len += at - from;
                from = at;
                place[len] = b'$';
                len += usize::from(ends != 0);
                place[len..len + BLOCK].copy_from_slice(&window[at..at + BLOCK]);
                ends &= ends.wrapping_sub(1);
                if ends == 0 {
                    break;
                }
            }
            made += len + BLOCK - from;
        }
        (self.line, self.number) = (line, number);
        Filtered {
            consumed: taken,
            produced: made,
        }
    }

    /// Formats what is left then: less than two blocks.
    #[inline(always)]
    fn tail<S: Simd>(&mut self, simd: S, tail: &[u8], room: &mut [u8]) -> Filtered {
        let mut bytes = [0; 2 * WINDOW];
        bytes[..tail.len()].copy_from_slice(tail);
        let mut made = Made::new(room);
        let mut taken = 0;
        while taken < tail.len()
            && made.has_room_for_a_block()
            && let Some(window) = bytes[taken..].first_chunk()
        {
            let n = BLOCK.min(tail.len() - taken);
            let marks = Marks::of(simd, window, n, self.look, &mut self.line);
            made.put_block(window, n, marks, &mut self.number, self.look);
            taken += n;
        }
        Filtered {
            consumed: taken,
            produced: made.len(),
        }
    }
}

impl Filter for Format {
    fn filter(&mut self, input: Input<'_>, room: &mut [u8]) -> Filtered {
        let bytes = match input.bytes {
            // Whether the last one stands in front of a newline is not known yet.
            [before @ .., b'\r'] if self.look.shows_crlf() && input.remaining != Remaining::End => {
                before
            }
            bytes => bytes,
        };
        // Whoever asks for one thing alone, or for -A, does not pay for the others.
        let body = match self.look {
            look if look.asks_only(NUMBERS) => {
                dispatch!(self.level, simd => self.blocks::<_, NUMBERS>(simd, bytes, room))
            }
            look if look.asks_only(BLANKS) => {
                dispatch!(self.level, simd => self.blocks::<_, BLANKS>(simd, bytes, room))
            }
            look if look.asks_only(ENDS) => {
                dispatch!(self.level, simd => self.ends(simd, bytes, room))
            }
            look if look.asks_only(BYTES) => {
                dispatch!(self.level, simd => self.blocks::<_, BYTES>(simd, bytes, room))
            }
            look if look.asks_only(ENDS | BYTES) => {
                dispatch!(self.level, simd => self.blocks::<_, { ENDS | BYTES }>(simd, bytes, room))
            }
            _ => dispatch!(self.level, simd => self.blocks::<_, ALL>(simd, bytes, room)),
        };
        let left = &bytes[body.consumed..];
        if left.len() >= WINDOW {
            return body;
        }
        let room = &mut room[body.produced..];
        let tail = dispatch!(self.level, simd => self.tail(simd, left, room));
        Filtered {
            consumed: body.consumed + tail.consumed,
            produced: body.produced + tail.produced,
        }
    }
}
