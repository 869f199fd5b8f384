//! Bytes that were read, and behind which more can be read without moving them.

use std::ops::Range;

use crate::buffer::ALIGNMENT;

/// How much a rewriter may leave for later before it is told that there is no place for more.
const HELD: usize = 64 << 10;

/// What is read at once, at most. The thread that reads ahead needs as much: to wake the other one costs as long as moving 64 KiB.
pub(crate) const READ: usize = 256 << 10;

/// Room for one read, and in front of it for what the rewriter has not taken of those before.
///
/// So that these are together, and seldom more than a part of a line has to be moved.
#[derive(Debug)]
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    /// Where the room for a read begins in `bytes`: on a page, so that it can be read into directly, and
    /// the kernel's copy is not slowed down.
    start: usize,
    /// Counted from the start of `bytes`.
    pending: Range<usize>,
}

impl Chunk {
    pub(crate) fn new() -> Self {
        let bytes = vec![0; HELD + READ + ALIGNMENT - 1];
        let start = HELD + bytes[HELD..].as_ptr().align_offset(ALIGNMENT);
        Self {
            bytes,
            start,
            pending: start..start,
        }
    }

    /// What has been read, and not been taken.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes[self.pending.clone()]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether more can be read, for a rewriter that leaves what is pending for later.
    pub(crate) fn has_place(&self) -> bool {
        self.pending.len() < HELD
    }

    /// Says that the first `n` pending bytes have been taken.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    pub(crate) fn take(&mut self, n: usize) {
        assert!(
            n <= self.pending.len(),
            "a rewriter took more than it was shown"
        );
        self.pending.start += n;
    }

    /// Forgets the last `n` pending bytes.
    pub(crate) fn cut(&mut self, n: usize) {
        self.pending.end -= n;
    }

    /// Room for one read of at most `len` bytes, with what is pending in front of it.
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        let held = self.pending.len();
        assert!(self.has_place(), "something has to be taken first");
        let to = self.start - held;
        if self.pending.start != to {
            self.bytes.copy_within(self.pending.clone(), to);
            self.pending = to..self.start;
        }
        &mut self.bytes[self.start..][..len.min(READ)]
    }

    /// Says that the first `n` bytes of the room were read.
    pub(crate) fn fill(&mut self, n: usize) {
        self.pending.end = self.start + n;
    }

    /// Puts what another one holds in front of what has been read into this one.
    pub(crate) fn put_in_front(&mut self, other: &mut Self) {
        let held = other.pending();
        let to = self.pending.start - held.len();
        self.bytes[to..self.pending.start].copy_from_slice(held);
        self.pending.start = to;
        other.clear();
    }

    /// Adds bytes behind what is pending, in more memory if there is too little.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.bytes.truncate(self.pending.end);
        self.bytes.extend_from_slice(bytes);
        self.pending.end = self.bytes.len();
        let whole = self.start + READ;
        if self.bytes.len() < whole {
            self.bytes.resize(whole, 0);
        }
    }

    /// Forgets what is pending.
    pub(crate) fn clear(&mut self) {
        self.pending = self.start..self.start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_last_is_forgotten_and_what_came_before_stays() {
        let mut chunk = Chunk::new();
        chunk.room(READ)[..6].copy_from_slice(b"abcdef");
        chunk.fill(6);
        chunk.take(1);
        chunk.cut(2);
        assert_eq!(chunk.pending(), b"bcd");
        chunk.room(READ)[..2].copy_from_slice(b"xy");
        chunk.fill(2);
        assert_eq!(chunk.pending(), b"bcdxy");
        let mut next = Chunk::new();
        next.room(READ)[..1].copy_from_slice(b"z");
        next.fill(1);
        next.put_in_front(&mut chunk);
        assert_eq!((next.pending(), chunk.is_empty()), (&b"bcdxyz"[..], true));
    }
}
