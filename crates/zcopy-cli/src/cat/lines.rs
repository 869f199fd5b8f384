//! [`Lines`]: a filter of whole lines, which get timestamps and colours.

use std::mem;

use memchr::memchr;
use zcopy::{Filter, Filtered, Input, Remaining};

use super::format::Format;
use super::highlight::Highlighter;
use super::timestamp::{ClockReading, Timestamper};

/// Formats a line as the options of GNU cat say.
pub trait LineFormat {
    /// Appends a formatted line to `out`. Returns the length of the line number in front of it, or
    /// `None` if the line is squeezed and nothing was appended.
    ///
    /// A line without a newline is a part of one that is too long, which the next call continues,
    /// or the end of the input.
    fn line(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize>;
}

impl LineFormat for Format {
    fn line(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        Format::line(self, bytes, out)
    }
}

/// Rewrites whole lines: timestamp, line number, coloured content.
///
/// It waits for the end of each line. A line that does not fit into the input buffer is processed
/// in parts of 64 to 320 KiB: it gets one timestamp and one number, and patterns match within one
/// part.
///
/// # Examples
///
/// ```
/// use zcopy::{Input, Remaining, Filter as _};
/// use zcopy_cli::cat::lines::{LineFormat, Lines};
/// use zcopy_cli::cat::highlight::Highlighter;
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
/// let highlighter = Highlighter::new().rule("oops=red".as_ref()).unwrap();
/// let mut lines = Lines::new(Plain).highlighter(Some(highlighter));
/// let mut out = [0; 1 << 16];
/// let input = Input::new(b"fine\noops\nperh", Remaining::More);
/// let filtered = lines.filter(input, &mut out);
/// assert_eq!(filtered.consumed, 10, "the last line has not ended yet");
/// assert_eq!(&out[..filtered.produced], b"fine\n\x1b[31moops\x1b[0m\n");
/// ```
#[derive(Debug)]
pub struct Lines<F, C = fn() -> ClockReading> {
    format: F,
    timestamper: Option<Timestamper<C>>,
    highlighter: Option<Highlighter>,
    /// Whether the last part did not end its line.
    is_within_line: bool,
    /// The current line, formatted and coloured.
    formatted: Vec<u8>,
    /// The bytes of one line to write. Between calls, those for which `out` had no space. More lines
    /// would need more memory.
    pending: Vec<u8>,
    /// How many of them have been written.
    n_written: usize,
    /// How many bytes the last call left. If the next one gets more, some have just been read.
    n_unconsumed: usize,
    /// How many of them are known to contain no newline.
    n_searched: usize,
}

impl<F> Lines<F> {
    /// Returns a filter without timestamps and colours.
    #[must_use]
    pub fn new(format: F) -> Self {
        Self {
            format,
            timestamper: None,
            highlighter: None,
            is_within_line: false,
            formatted: Vec::new(),
            pending: Vec::new(),
            n_written: 0,
            n_unconsumed: 0,
            n_searched: 0,
        }
    }
}

impl<F, C> Lines<F, C> {
    /// Sets the writer of the time in front of each line.
    #[must_use]
    pub fn timestamper<D>(self, timestamper: Option<Timestamper<D>>) -> Lines<F, D> {
        Lines {
            format: self.format,
            timestamper,
            highlighter: self.highlighter,
            is_within_line: self.is_within_line,
            formatted: self.formatted,
            pending: self.pending,
            n_written: self.n_written,
            n_unconsumed: self.n_unconsumed,
            n_searched: self.n_searched,
        }
    }

    /// Sets what colours the content of each line.
    #[must_use]
    pub fn highlighter(mut self, highlighter: Option<Highlighter>) -> Self {
        self.highlighter = highlighter;
        self
    }

    /// Returns the first line of `bytes`, or the next part of one that is too long.
    fn next<'a>(&mut self, bytes: &'a [u8], unterminated: Unterminated) -> Option<&'a [u8]> {
        let searched = mem::take(&mut self.n_searched).min(bytes.len());
        if let Some(at) = memchr(b'\n', &bytes[searched..]) {
            return Some(&bytes[..=searched + at]);
        }
        match unterminated {
            _ if bytes.is_empty() => None,
            Unterminated::Flush => Some(bytes),
            Unterminated::Split => Some(split_part(bytes)),
            Unterminated::Wait => {
                self.n_searched = bytes.len();
                None
            }
        }
    }
}

impl<F, C> Lines<F, C> {
    /// Moves pending bytes to `out`, as many as have space there. Returns how many these are.
    fn produce(&mut self, out: &mut [u8]) -> usize {
        let unwritten = &self.pending[self.n_written..];
        let produced = unwritten.len().min(out.len());
        out[..produced].copy_from_slice(&unwritten[..produced]);
        self.n_written += produced;
        if self.n_written == self.pending.len() {
            self.pending.clear();
            self.n_written = 0;
        }
        produced
    }
}

impl<F: LineFormat, C: FnMut() -> ClockReading> Lines<F, C> {
    /// Formats a line, and appends it to the pending bytes.
    fn push(&mut self, line: &[u8]) {
        let was_within_line = mem::replace(&mut self.is_within_line, !line.ends_with(b"\n"));
        self.formatted.clear();
        let mut is_kept = false;
        let format = &mut self.format;
        let mut format = |bytes: &[u8], out: &mut Vec<u8>| {
            let number_len = format.line(bytes, out);
            is_kept |= number_len.is_some();
            number_len.unwrap_or(0)
        };
        match &mut self.highlighter {
            Some(highlighter) => highlighter.push(line, format, &mut self.formatted),
            None => {
                format(line, &mut self.formatted);
            }
        }
        if !is_kept {
            return;
        }
        if let Some(timestamper) = &mut self.timestamper
            && !was_within_line
        {
            timestamper.push(&mut self.pending);
        }
        self.pending.extend_from_slice(&self.formatted);
    }
}

impl<F: LineFormat, C: FnMut() -> ClockReading> Filter for Lines<F, C> {
    fn filter(&mut self, input: Input<'_>, out: &mut [u8]) -> Filtered {
        if input.bytes.len() > self.n_unconsumed
            && let Some(timestamper) = &mut self.timestamper
        {
            timestamper.read_clock();
        }
        let mut consumed = 0;
        let mut produced = self.produce(out);
        while produced < out.len() {
            let unterminated = match input.remaining {
                Remaining::End => Unterminated::Flush,
                Remaining::Full if consumed == 0 => Unterminated::Split,
                _ => Unterminated::Wait,
            };
            let Some(line) = self.next(&input.bytes[consumed..], unterminated) else {
                break;
            };
            self.push(line);
            consumed += line.len();
            produced += self.produce(&mut out[produced..]);
        }
        self.n_unconsumed = input.bytes.len() - consumed;
        Filtered { consumed, produced }
    }
}

/// How to treat bytes without a newline.
#[derive(Clone, Copy)]
enum Unterminated {
    /// Wait for the newline.
    Wait,
    /// Process a part of the line: the input buffer is full.
    Split,
    /// Process all bytes: the input has ended.
    Flush,
}

/// Returns the part of a long line that does not split a character, nor a CR from a newline that
/// may follow.
fn split_part(bytes: &[u8]) -> &[u8] {
    let tail = &bytes[bytes.len().saturating_sub(4)..];
    // The start of the last character, if the bytes are UTF-8.
    let start = tail.iter().rposition(|byte| byte & 0xc0 != 0x80);
    let start = start.unwrap_or(tail.len());
    let is_split = match tail.get(start) {
        Some(b'\r') => true,
        Some(0xc2..=0xdf) => tail.len() - start < 2,
        Some(0xe0..=0xef) => tail.len() - start < 3,
        Some(0xf0..=0xf4) => tail.len() - start < 4,
        _ => false,
    };
    let cut = bytes.len() - if is_split { tail.len() - start } else { 0 };
    if cut == 0 { bytes } else { &bytes[..cut] }
}

#[cfg(test)]
mod tests;
