//! Who sees the bytes pass: lines are counted, the last ones kept, all of them hashed.

use super::digest::Stream;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Bytes,
    /// Records that end in this byte: lines.
    Records(u8),
}

/// Sees every byte once, in order, and remembers what somebody wants to know of them.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    /// How many of the last bytes are kept.
    tail_len: usize,
    tail: Vec<u8>,
    /// How many bytes of the most recent line are kept.
    line_len: usize,
    line: Vec<u8>,
    /// What has come of the line after that.
    partial: Vec<u8>,
    digest: Option<Stream>,
}

/// The most that is kept of a line, however wide the terminal is.
const LONGEST_LINE: usize = 4096;

/// The most that is kept of the last bytes, however many are asked for: no terminal is wider.
const LONGEST_TAIL: usize = 1 << 16;

impl Witness {
    /// A witness that keeps the last `tail_len` bytes, the most recent line if asked, and a digest.
    pub(crate) fn new(tail_len: usize, keeps_line: bool, digest: Option<Stream>) -> Self {
        Self {
            tail_len: tail_len.min(LONGEST_TAIL),
            line_len: if keeps_line { LONGEST_LINE } else { 0 },
            digest,
            ..Self::default()
        }
    }

    /// Keeps at least the last `tail_len` bytes from now on, and the most recent line if asked.
    pub(crate) fn keep(&mut self, tail_len: usize, keeps_line: bool) {
        self.tail_len = self.tail_len.max(tail_len.min(LONGEST_TAIL));
        if keeps_line {
            self.line_len = LONGEST_LINE;
        }
    }

    /// Whether there is anything to see to.
    pub(crate) fn is_needed(&self) -> bool {
        self.tail_len > 0 || self.line_len > 0 || self.digest.is_some()
    }

    pub(crate) fn see(&mut self, bytes: &[u8]) {
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

    /// The last bytes, as many as are kept.
    pub(crate) fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// The most recent whole line, or its beginning.
    pub(crate) fn line(&self) -> &[u8] {
        &self.line
    }

    /// The digest of everything seen.
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

/// Appends what does not make it longer than `most`.
fn add(kept: &mut Vec<u8>, bytes: &[u8], most: usize) {
    let room = most.saturating_sub(kept.len());
    kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

#[cfg(test)]
mod tests {
    use super::Witness;

    #[test]
    fn the_tail_is_what_was_last_seen_however_it_was_cut() {
        let bytes = b"one two three four";
        for cut in 1..bytes.len() {
            for tail_len in [1, 4, 18, 30] {
                let mut witness = Witness::new(tail_len, false, None);
                bytes.chunks(cut).for_each(|chunk| witness.see(chunk));
                let expected = &bytes[bytes.len().saturating_sub(tail_len)..];
                assert_eq!(witness.tail(), expected, "{cut}, {tail_len}");
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
                let mut witness = Witness::new(0, true, None);
                bytes.chunks(cut).for_each(|chunk| witness.see(chunk));
                assert_eq!(witness.line(), expected, "{bytes:?}, {cut}");
            }
        }
    }

    #[test]
    fn no_more_is_kept_than_a_terminal_shows() {
        let mut witness = Witness::new(usize::MAX, false, None);
        for _ in 0..3 {
            witness.see(&vec![b'x'; super::LONGEST_TAIL]);
        }
        assert_eq!(witness.tail().len(), super::LONGEST_TAIL);
    }

    #[test]
    fn of_a_line_without_end_only_the_beginning_is_kept() {
        let mut witness = Witness::new(0, true, None);
        for _ in 0..1000 {
            witness.see(&[b'x'; 100]);
        }
        witness.see(b"\n");
        assert_eq!(witness.line().len(), super::LONGEST_LINE);
    }
}
