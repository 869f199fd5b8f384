//! The inspection of passing bytes, for the last ones, the last line and a digest.

use crate::pv::transfer::digest::Stream;

/// The unit that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Bytes,
    /// Records that end with this byte: lines.
    Records(u8),
}

/// An inspector of all bytes in order, which keeps those that the display shows.
#[derive(Debug, Default)]
pub(crate) struct Inspector {
    /// The number of last bytes to keep.
    tail_len: usize,
    tail: Vec<u8>,
    /// The number of bytes of the most recent line to keep.
    line_len: usize,
    line: Vec<u8>,
    /// The beginning of the line after that.
    partial: Vec<u8>,
    digest: Option<Stream>,
}

/// The most bytes of a line that are kept, for any width of the terminal.
const MAX_LINE: usize = 4096;

/// The most of the last bytes that are kept. No terminal is wider.
const MAX_TAIL: usize = 1 << 16;

impl Inspector {
    /// Creates an inspector that keeps the last `tail_len` bytes, the most recent line if
    /// `keeps_line` is set, and a digest.
    pub(crate) fn new(tail_len: usize, keeps_line: bool, digest: Option<Stream>) -> Self {
        Self {
            tail_len: tail_len.min(MAX_TAIL),
            line_len: if keeps_line { MAX_LINE } else { 0 },
            digest,
            ..Self::default()
        }
    }

    /// Makes the inspector keep at least the last `tail_len` bytes, and the most recent line if
    /// `keeps_line` is set.
    pub(crate) fn keep(&mut self, tail_len: usize, keeps_line: bool) {
        self.tail_len = self.tail_len.max(tail_len.min(MAX_TAIL));
        if keeps_line {
            self.line_len = MAX_LINE;
        }
    }

    /// Returns whether bytes have to pass through the inspector.
    pub(crate) fn is_needed(&self) -> bool {
        self.tail_len > 0 || self.line_len > 0 || self.digest.is_some()
    }

    /// Inspects the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if let Some(digest) = &mut self.digest {
            digest.update(bytes);
        }
        if self.tail_len > 0 {
            self.keep_tail(bytes);
        }
        if self.line_len > 0 {
            self.keep_line(bytes);
        }
    }

    /// Returns the last bytes.
    pub(crate) fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// Returns the most recent complete line, or its beginning.
    pub(crate) fn line(&self) -> &[u8] {
        &self.line
    }

    /// Returns the digest of all bytes so far.
    pub(crate) fn digest(&self) -> Option<Stream> {
        self.digest.clone()
    }

    fn keep_tail(&mut self, bytes: &[u8]) {
        let new = &bytes[bytes.len().saturating_sub(self.tail_len)..];
        let surplus = (self.tail.len() + new.len()).saturating_sub(self.tail_len);
        self.tail.drain(..surplus);
        self.tail.extend_from_slice(new);
    }

    fn keep_line(&mut self, bytes: &[u8]) {
        let Some(end) = memchr::memrchr(b'\n', bytes) else {
            add(&mut self.partial, bytes, self.line_len);
            return;
        };
        let (whole, rest) = (&bytes[..end], &bytes[end + 1..]);
        if let Some(before) = memchr::memrchr(b'\n', whole) {
            self.line.clear();
            add(&mut self.line, &whole[before + 1..], self.line_len);
        } else {
            add(&mut self.partial, whole, self.line_len);
            std::mem::swap(&mut self.line, &mut self.partial);
        }
        self.partial.clear();
        add(&mut self.partial, rest, self.line_len);
    }
}

/// Appends bytes up to a length of `max_len`.
fn add(kept: &mut Vec<u8>, bytes: &[u8], max_len: usize) {
    let room = max_len.saturating_sub(kept.len());
    kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

#[cfg(test)]
mod tests {
    use super::Inspector;

    #[test]
    fn the_tail_is_what_was_last_seen_however_it_was_cut() {
        let bytes = b"one two three four";
        for cut in 1..bytes.len() {
            for tail_len in [1, 4, 18, 30] {
                let mut inspector = Inspector::new(tail_len, false, None);
                bytes.chunks(cut).for_each(|chunk| inspector.update(chunk));
                let expected = &bytes[bytes.len().saturating_sub(tail_len)..];
                assert_eq!(inspector.tail(), expected, "{cut}, {tail_len}");
            }
        }
    }

    #[test]
    fn the_line_is_the_last_whole_one_however_it_was_cut() {
        for (bytes, expected) in [
            (&b"one\ntwo\nthree"[..], &b"two"[..]),
            (b"one\ntwo\nthree\n", b"three"),
            (b"one\n\n", b""),
            (b"none", b""),
        ] {
            for cut in 1..=bytes.len() {
                let mut inspector = Inspector::new(0, true, None);
                bytes.chunks(cut).for_each(|chunk| inspector.update(chunk));
                assert_eq!(inspector.line(), expected, "{bytes:?}, {cut}");
            }
        }
    }

    #[test]
    fn no_more_is_kept_than_a_terminal_shows() {
        let mut inspector = Inspector::new(usize::MAX, false, None);
        for _ in 0..3 {
            inspector.update(&vec![b'x'; super::MAX_TAIL]);
        }
        assert_eq!(inspector.tail().len(), super::MAX_TAIL);
    }

    #[test]
    fn of_a_line_without_end_only_the_beginning_is_kept() {
        let mut inspector = Inspector::new(0, true, None);
        for _ in 0..1000 {
            inspector.update(&[b'x'; 100]);
        }
        inspector.update(b"\n");
        assert_eq!(inspector.line().len(), super::MAX_LINE);
    }
}
