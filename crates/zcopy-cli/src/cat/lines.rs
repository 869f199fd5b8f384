//! Whole lines: each with the time it came in front, and coloured.

use std::mem;

use memchr::memchr;
use zcopy::{Filter, Filtered, Input, Remaining};

use super::format::Format;
use super::highlight::Paint;
use super::timestamp::{Moment, Stamp};

/// What makes a line look as the options of GNU cat want it.
pub trait LineFormat {
    /// Puts a line behind what is in `out`, and tells how many bytes of it are the number in front; `None` if the line is
    /// squeezed away, and nothing was put.
    ///
    /// The line ends with its newline. Without one it is a piece of a line that is too long, and the next one goes on
    /// with it, or it is the end of everything.
    fn line(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize>;
}

impl LineFormat for Format {
    fn line(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        Format::line(self, bytes, out)
    }
}

/// Rewrites whole lines: the time first, then the number, then the coloured content.
///
/// A line waits until its end has come, or until it is known that none does. A line for which there is no place comes in
/// pieces of 64 to 320 KiB instead: it is stamped and numbered once, and patterns see one piece at a time.
///
/// # Examples
///
/// ```
/// use zcopy::{Input, Remaining, Filter as _};
/// use zcopy_cli::cat::lines::{LineFormat, Lines};
/// use zcopy_cli::cat::highlight::Paint;
///
/// struct Plain;
///
/// impl LineFormat for Plain {
///     fn line(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
///         out.extend_from_slice(bytes);
///         Some(0)
///     }
/// }
///
/// let paint = Paint::new().rule("oops=red".as_ref()).unwrap();
/// let mut lines = Lines::new(Plain).paint(Some(paint));
/// let mut room = [0; 1 << 16];
/// let input = Input::new(b"fine\noops\nperh", Remaining::More);
/// let filtered = lines.filter(input, &mut room);
/// assert_eq!(filtered.consumed, 10, "the last line has not ended yet");
/// assert_eq!(&room[..filtered.produced], b"fine\n\x1b[31moops\x1b[0m\n");
/// ```
#[derive(Debug)]
pub struct Lines<F, C = fn() -> Moment> {
    format: F,
    stamp: Option<Stamp<C>>,
    paint: Option<Paint>,
    /// Whether the last piece was not the end of its line.
    is_within: bool,
    /// The line at hand, as the format shows it.
    shown: Vec<u8>,
    /// What is made. Between calls it is what has found no room yet, at the end of one line.
    made: Vec<u8>,
    /// How much of that has been given out.
    given: usize,
    /// How many bytes were left when it was asked last: if it is shown more than those, time has passed.
    left: usize,
    /// How many of them are known to hold no newline.
    searched: usize,
}

impl<F> Lines<F> {
    /// Whole lines, neither stamped nor painted.
    #[must_use]
    pub fn new(format: F) -> Self {
        Self {
            format,
            stamp: None,
            paint: None,
            is_within: false,
            shown: Vec::new(),
            made: Vec::new(),
            given: 0,
            left: 0,
            searched: 0,
        }
    }
}

impl<F, C> Lines<F, C> {
    /// What stands in front of each line.
    #[must_use]
    pub fn stamp<D>(self, stamp: Option<Stamp<D>>) -> Lines<F, D> {
        Lines {
            format: self.format,
            stamp,
            paint: self.paint,
            is_within: self.is_within,
            shown: self.shown,
            made: self.made,
            given: self.given,
            left: self.left,
            searched: self.searched,
        }
    }

    /// How the content of each line is coloured.
    #[must_use]
    pub fn paint(mut self, paint: Option<Paint>) -> Self {
        self.paint = paint;
        self
    }

    /// The next line at the beginning of `bytes`, or the next piece of one that is too long.
    fn next<'a>(&mut self, bytes: &'a [u8], end: End) -> Option<&'a [u8]> {
        let searched = mem::take(&mut self.searched).min(bytes.len());
        if let Some(at) = memchr(b'\n', &bytes[searched..]) {
            return Some(&bytes[..=searched + at]);
        }
        match end {
            _ if bytes.is_empty() => None,
            End::Whole => Some(bytes),
            End::Piece => Some(piece(bytes)),
            End::Unknown => {
                self.searched = bytes.len();
                None
            }
        }
    }
}

impl<F: LineFormat, C: FnMut() -> Moment> Lines<F, C> {
    fn put(&mut self, line: &[u8]) {
        let was_within = mem::replace(&mut self.is_within, !line.ends_with(b"\n"));
        self.shown.clear();
        let mut is_shown = false;
        let format = &mut self.format;
        let mut show = |bytes: &[u8], out: &mut Vec<u8>| {
            let number = format.line(bytes, out);
            is_shown |= number.is_some();
            number.unwrap_or(0)
        };
        match &mut self.paint {
            Some(paint) => paint.put(line, show, &mut self.shown),
            None => {
                show(line, &mut self.shown);
            }
        }
        if !is_shown {
            return;
        }
        if let Some(stamp) = &mut self.stamp
            && !was_within
        {
            stamp.put(&mut self.made);
        }
        self.made.extend_from_slice(&self.shown);
    }
}

impl<F: LineFormat, C: FnMut() -> Moment> Filter for Lines<F, C> {
    fn filter(&mut self, input: Input<'_>, room: &mut [u8]) -> Filtered {
        if input.bytes.len() > self.left
            && let Some(stamp) = &mut self.stamp
        {
            stamp.look();
        }
        let mut taken = 0;
        while self.made.len() - self.given < room.len() {
            let end = match input.remaining {
                Remaining::End => End::Whole,
                Remaining::Full if taken == 0 => End::Piece,
                _ => End::Unknown,
            };
            let Some(line) = self.next(&input.bytes[taken..], end) else {
                break;
            };
            self.put(line);
            taken += line.len();
        }
        let waiting = &self.made[self.given..];
        let made = waiting.len().min(room.len());
        room[..made].copy_from_slice(&waiting[..made]);
        self.given += made;
        if self.given == self.made.len() {
            self.made.clear();
            self.given = 0;
        }
        self.left = input.bytes.len() - taken;
        Filtered {
            consumed: taken,
            produced: made,
        }
    }
}

/// What to make of bytes without a newline.
#[derive(Clone, Copy)]
enum End {
    /// It may still come.
    Unknown,
    /// It may still come, but there is no place to wait for it.
    Piece,
    /// It does not come: this is all.
    Whole,
}

/// As much of a line that is too long as does not tear a character, nor a CR from the newline that may follow.
fn piece(bytes: &[u8]) -> &[u8] {
    let tail = &bytes[bytes.len().saturating_sub(4)..];
    // Where the last character begins, if these are characters.
    let start = tail.iter().rposition(|byte| byte & 0xc0 != 0x80);
    let start = start.unwrap_or(tail.len());
    let is_torn = match tail.get(start) {
        Some(b'\r') => true,
        Some(0xc2..=0xdf) => tail.len() - start < 2,
        Some(0xe0..=0xef) => tail.len() - start < 3,
        Some(0xf0..=0xf4) => tail.len() - start < 4,
        _ => false,
    };
    let cut = bytes.len() - if is_torn { tail.len() - start } else { 0 };
    if cut == 0 { bytes } else { &bytes[..cut] }
}

#[cfg(test)]
mod tests;
