//! [`Format`]: numbers lines, squeezes blank ones and shows invisible bytes.
//!
//! It processes blocks of 64 bytes. `BlockMasks` has one bit for each byte that needs work. The
//! bytes between two of these are copied 64 at a time: a copy of constant length is cheaper than
//! one of the exact length. The next write covers the excess.

#![allow(
    clippy::inline_always,
    reason = "the vector instructions are those of the function that this code is inlined into"
)]

use fearless_simd::{Level, Simd, dispatch};
use zcopy::{Filter, Filtered, Input, Remaining};

use block_masks::{BLOCK, BlockMasks, LineState, WINDOW};
use line_number::LineNumber;
use out_buffer::{MAX_BLOCK_OUTPUT, OutBuffer};

mod block_masks;
mod caret;
mod line_number;
mod out_buffer;

#[cfg(test)]
mod tests;

/// The size of the output buffer of [`Format::line`]: a few blocks.
const LINE_BUFFER_SIZE: usize = 4096;

// Sets of options for which the loop over blocks is compiled.
const NUMBERS: u8 = 1;
const BLANKS: u8 = 2;
const ENDS: u8 = 4;
const BYTES: u8 = 8;
const ALL: u8 = NUMBERS | BLANKS | ENDS | BYTES;

/// The options of GNU cat that change bytes.
///
/// # Examples
///
/// ```
/// use zcopy_cli::cat::format::{FormatOptions, Numbering};
///
/// let options = FormatOptions {
///     numbering: Numbering::NonBlank,
///     ..FormatOptions::default()
/// };
/// assert!(!options.changes_nothing());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own, and all combinations are valid"
)]
pub struct FormatOptions {
    /// Which lines are numbered: `-n` and `-b`.
    pub numbering: Numbering,
    /// Keep only the first of several adjacent blank lines: `-s`.
    pub squeeze_blank: bool,
    /// Show `$` before a newline, and `^M` for a carriage return before that: `-E`.
    pub show_ends: bool,
    /// Show a tab as `^I`: `-T`.
    pub show_tabs: bool,
    /// Show other nonprinting bytes than tabs and newlines as `^X` and `M-X`: `-v`.
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
    /// Every line that is not blank.
    NonBlank,
}

impl FormatOptions {
    /// Returns whether no option is set.
    #[must_use]
    pub fn changes_nothing(self) -> bool {
        self == Self::default()
    }

    /// Returns the options that are also in `only`. If `only` is constant, the compiler removes the
    /// code of the other options.
    #[inline]
    fn masked(self, only: u8) -> Self {
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

    /// Returns whether all options that are set are of this set.
    fn uses_only(self, only: u8) -> bool {
        self == self.masked(only)
    }

    /// Returns whether a carriage return is shown before a newline only.
    fn shows_crlf(self) -> bool {
        self.show_ends && !self.show_nonprinting
    }
}

/// Formats bytes as [`FormatOptions`] say. Line numbers continue from call to call, and so from
/// file to file.
///
/// # Examples
///
/// ```
/// use zcopy_cli::cat::format::{Format, FormatOptions};
///
/// let mut format = Format::new(FormatOptions {
///     show_ends: true,
///     show_tabs: true,
///     ..FormatOptions::default()
/// });
/// let mut out = Vec::new();
/// format.line(b"to\tbe\r\n", &mut out);
/// assert_eq!(out, b"to^Ibe^M$\n");
/// ```
#[derive(Clone, Debug)]
pub struct Format {
    options: FormatOptions,
    /// The vector instructions of the processor.
    level: Level,
    line: LineState,
    number: LineNumber,
    /// The output buffer of [`Format::line`].
    line_buffer: Vec<u8>,
}

impl Format {
    /// Returns one at the beginning of the first line.
    #[must_use]
    pub fn new(options: FormatOptions) -> Self {
        Self::with_level(Level::new(), options)
    }

    /// As [`new`](Self::new), with vector instructions of at most this level.
    fn with_level(level: Level, options: FormatOptions) -> Self {
        Self {
            options,
            level,
            line: LineState::default(),
            number: LineNumber::default(),
            line_buffer: Vec::new(),
        }
    }

    /// Formats one line with its newline, or a part of a line without, and appends it to `out`.
    ///
    /// Returns the length of the line number in front of the content. Returns `None` if the line is
    /// squeezed and nothing was appended.
    ///
    /// It appends the bytes that [`Filter::filter`] writes, if no part ends between a carriage
    /// return and its newline.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::cat::format::{Format, FormatOptions, Numbering};
    ///
    /// let mut format = Format::new(FormatOptions {
    ///     numbering: Numbering::Every,
    ///     squeeze_blank: true,
    ///     ..FormatOptions::default()
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
        let mut buffer = std::mem::take(&mut self.line_buffer);
        buffer.resize(LINE_BUFFER_SIZE, 0);
        let mut rest = bytes;
        while !rest.is_empty() {
            let filtered = self.filter(Input::new(rest, Remaining::End), &mut buffer);
            out.extend_from_slice(&buffer[..filtered.produced]);
            rest = &rest[filtered.consumed..];
        }
        self.line_buffer = buffer;
        if out.len() == len_before && !bytes.is_empty() {
            return None;
        }
        Some(if self.number == number_before {
            0
        } else {
            self.number.width()
        })
    }

    /// Formats all blocks that another block follows.
    #[inline(always)]
    fn blocks<S: Simd, const ONLY: u8>(
        &mut self,
        simd: S,
        bytes: &[u8],
        out: &mut [u8],
    ) -> Filtered {
        let options = self.options.masked(ONLY);
        // Local variables stay in registers.
        let (mut line, mut number) = (self.line, self.number);
        let mut out = OutBuffer::new(out);
        let mut consumed = 0;
        while out.has_space_for_block()
            && let Some(window) = bytes[consumed..].first_chunk()
        {
            let masks = BlockMasks::scan(simd, window, BLOCK, options, &mut line);
            out.push_block(window, BLOCK, masks, &mut number, options);
            consumed += BLOCK;
        }
        (self.line, self.number) = (line, number);
        Filtered {
            consumed,
            produced: out.len(),
        }
    }

    /// As [`Format::blocks`], for `-E` alone.
    #[inline(always)]
    fn ends<S: Simd>(&mut self, simd: S, bytes: &[u8], out: &mut [u8]) -> Filtered {
        let options = self.options.masked(ENDS);
        let (mut line, mut number) = (self.line, self.number);
        let (mut consumed, mut produced) = (0, 0);
        while let Some(window) = bytes[consumed..].first_chunk::<WINDOW>()
            && let Some(block_out) = out[produced..].first_chunk_mut::<MAX_BLOCK_OUTPUT>()
        {
            let masks = BlockMasks::scan(simd, window, BLOCK, options, &mut line);
            consumed += BLOCK;
            if masks.returns != 0 {
                let mut block = OutBuffer::new(block_out);
                block.push_block(window, BLOCK, masks, &mut number, options);
                produced += block.len();
                continue;
            }
            let (mut len, mut from) = (0, 0);
            let mut ends = masks.ends;
            block_out[..BLOCK].copy_from_slice(&window[..BLOCK]);
            loop {
                // Without an end, the end of the block counts as one of length 0. Most blocks have
                // no or one end, and a branch for that would be mispredicted.
                let at = ends.trailing_zeros() as usize;
                len += at - from;
                from = at;
                block_out[len] = b'$';
                len += usize::from(ends != 0);
                block_out[len..len + BLOCK].copy_from_slice(&window[at..at + BLOCK]);
                ends &= ends.wrapping_sub(1);
                if ends == 0 {
                    break;
                }
            }
            produced += len + BLOCK - from;
        }
        (self.line, self.number) = (line, number);
        Filtered { consumed, produced }
    }

    /// Formats the last bytes: less than two blocks.
    #[inline(always)]
    fn tail<S: Simd>(&mut self, simd: S, tail: &[u8], out: &mut [u8]) -> Filtered {
        let mut bytes = [0; 2 * WINDOW];
        bytes[..tail.len()].copy_from_slice(tail);
        let mut out = OutBuffer::new(out);
        let mut consumed = 0;
        while consumed < tail.len()
            && out.has_space_for_block()
            && let Some(window) = bytes[consumed..].first_chunk()
        {
            let n = BLOCK.min(tail.len() - consumed);
            let masks = BlockMasks::scan(simd, window, n, self.options, &mut self.line);
            out.push_block(window, n, masks, &mut self.number, self.options);
            consumed += n;
        }
        Filtered {
            consumed,
            produced: out.len(),
        }
    }
}

impl Filter for Format {
    fn filter(&mut self, input: Input<'_>, out: &mut [u8]) -> Filtered {
        let bytes = match input.bytes {
            // The byte behind a carriage return decides how it is shown.
            [before @ .., b'\r']
                if self.options.shows_crlf() && input.remaining != Remaining::End =>
            {
                before
            }
            bytes => bytes,
        };
        // A single option, and -A, do not pay for the others.
        let body = match self.options {
            options if options.uses_only(NUMBERS) => {
                dispatch!(self.level, simd => self.blocks::<_, NUMBERS>(simd, bytes, out))
            }
            options if options.uses_only(BLANKS) => {
                dispatch!(self.level, simd => self.blocks::<_, BLANKS>(simd, bytes, out))
            }
            options if options.uses_only(ENDS) => {
                dispatch!(self.level, simd => self.ends(simd, bytes, out))
            }
            options if options.uses_only(BYTES) => {
                dispatch!(self.level, simd => self.blocks::<_, BYTES>(simd, bytes, out))
            }
            options if options.uses_only(ENDS | BYTES) => {
                dispatch!(self.level, simd => self.blocks::<_, { ENDS | BYTES }>(simd, bytes, out))
            }
            _ => dispatch!(self.level, simd => self.blocks::<_, ALL>(simd, bytes, out)),
        };
        let rest = &bytes[body.consumed..];
        if rest.len() >= WINDOW {
            return body;
        }
        let out = &mut out[body.produced..];
        let tail = dispatch!(self.level, simd => self.tail(simd, rest, out));
        Filtered {
            consumed: body.consumed + tail.consumed,
            produced: body.produced + tail.produced,
        }
    }
}
