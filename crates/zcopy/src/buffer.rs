//! The one buffer of a transfer, for the route through user space.

use std::ops::Range;

/// The best block over eleven machines, as GNU coreutils measured; larger ones fall out of the
/// second-level cache (`ioblksize.h`).
pub(crate) const FULL: usize = 256 << 10;

/// What a transfer of unknown length starts with: enough for one message or a small file, and below
/// the size from which the allocator asks the kernel for memory.
pub(crate) const SMALL: usize = 32 << 10;

/// The smallest allocation: enough for a read that will probably find the end. Zeroing [`SMALL`] bytes for that read took as
/// long as two system calls.
pub(crate) const LEAST: usize = 4096;

/// What `O_DIRECT` asks of memory, lengths and positions on every disk that there is: a page. Most ask
/// less, 512.
pub(crate) const ALIGNMENT: usize = 4096;

/// What copies ask of memory: a cache line. `malloc(3)` gives 16 bytes more than a page; a processor that
/// copies by `rep movsb` takes four times as long to where the page's own offset is ahead by 1 to
/// 31 bytes (measured on an EPYC: 1.8 GB/s instead of 7.4 out of the page cache).
const CACHE_LINE: usize = 64;

/// Bytes read from the source, some of them perhaps not yet written to the sink.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// The most that it may hold.
    max_capacity: usize,
    /// Where the room begins in `bytes`, so that it is aligned.
    start: usize,
    capacity: usize,
    /// Counted from the start of the room.
    pending: Range<usize>,
    /// Whether the last read filled all of it: there is more where that came from.
    was_filled: bool,
}

impl Default for Buffer {
    fn default() -> Self {
        Self::with_max_capacity(FULL)
    }
}

impl Buffer {
    /// A buffer that holds at most `max_capacity` bytes, and none as yet.
    pub(crate) fn with_max_capacity(max_capacity: usize) -> Self {
        Self {
            bytes: Vec::new(),
            max_capacity,
            start: 0,
            capacity: 0,
            pending: 0..0,
            was_filled: false,
        }
    }

    /// The most that it may hold.
    pub(crate) fn max_capacity(&self) -> usize {
        self.max_capacity
    }

    /// Makes room for `len` bytes, at most as many as it may hold, in memory that is aligned to a page if `is_aligned`
    /// says so.
    ///
    /// A fresh page costs more than moving what it holds, so that there are no more than are
    /// needed; and a buffer that turns out too small is replaced by a full one, so that a transfer
    /// allocates at most twice.
    pub(crate) fn reserve(&mut self, len: usize, is_aligned: bool) {
        let len = len.min(self.max_capacity);
        self.capacity = match self.capacity {
            0 => len.max(LEAST).min(self.max_capacity),
            had if had < len => self.max_capacity,
            _ => return,
        };
        let alignment = if is_aligned { ALIGNMENT } else { CACHE_LINE };
        // The old one goes first, unless it is needed: there is never more than one.
        let old = if self.is_empty() {
            self.bytes = Vec::new();
            Vec::new()
        } else {
            self.pending().to_vec()
        };
        self.bytes = vec![0; self.capacity + alignment - 1];
        self.start = self.bytes.as_ptr().align_offset(alignment);
        self.bytes[self.start..][..old.len()].copy_from_slice(&old);
        self.pending = 0..old.len();
    }

    /// Makes room for `len` bytes, and hardly more, where nothing is pending.
    pub(crate) fn reserve_exactly(&mut self, len: usize) {
        if self.capacity < len {
            self.capacity = len.next_multiple_of(ALIGNMENT).min(self.max_capacity);
            self.bytes = Vec::new();
            self.bytes = vec![0; self.capacity + CACHE_LINE - 1];
            self.start = self.bytes.as_ptr().align_offset(CACHE_LINE);
            self.pending = 0..0;
        }
    }

    /// The room to read at most `len` bytes into, behind those that are pending.
    pub(crate) fn spare_mut(&mut self, len: usize) -> &mut [u8] {
        self.compact();
        let len = len.min(self.capacity - self.pending.end);
        &mut self.bytes[self.start + self.pending.end..][..len]
    }

    /// Moves the pending bytes to where the memory is aligned.
    pub(crate) fn compact(&mut self) {
        let (from, n) = (self.start + self.pending.start, self.pending.len());
        if self.pending.start > 0 {
            self.bytes.copy_within(from..from + n, self.start);
            self.pending = 0..n;
        }
    }

    /// Says that the first `n` bytes of the room were read.
    pub(crate) fn fill(&mut self, n: usize) {
        self.pending.end += n;
        self.was_filled = self.pending.end == self.capacity;
    }

    /// Whether it holds as much as it may ever hold.
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() == self.capacity && self.capacity == self.max_capacity
    }

    /// Whether the last read filled all of it.
    pub(crate) fn was_filled(&self) -> bool {
        self.was_filled
    }

    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes[self.start..][self.pending.clone()]
    }

    /// Says that the first `n` pending bytes are in the sink, and returns them.
    pub(crate) fn consume(&mut self, n: usize) -> &[u8] {
        let taken = self.pending.start..self.pending.start + n;
        self.pending.start = taken.end;
        &self.bytes[self.start..][taken]
    }

    /// Keeps the first `len` pending bytes and forgets the others.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.pending.end = self.pending.end.min(self.pending.start + len);
    }

    /// Returns the pending bytes and forgets them.
    pub(crate) fn take_pending(&mut self) -> Vec<u8> {
        let bytes = self.pending().to_vec();
        self.pending = 0..0;
        bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fresh memory is zeroed, and costs its pages.
    #[test]
    fn memory_that_is_large_enough_is_kept() {
        for (first, second, is_kept) in [
            (ALIGNMENT, ALIGNMENT, true),
            (ALIGNMENT, 1, true),
            (1, ALIGNMENT, true),
            (ALIGNMENT, ALIGNMENT + 1, false),
        ] {
            let mut buffer = Buffer::default();
            buffer.reserve_exactly(first);
            assert_eq!(buffer.spare_mut(usize::MAX).len(), ALIGNMENT);
            buffer.spare_mut(usize::MAX).fill(7);
            buffer.reserve_exactly(second);
            let room = buffer.spare_mut(second);
            assert_eq!(room.len(), second);
            let is_old = room.iter().all(|byte| *byte == 7);
            assert_eq!(is_old, is_kept, "{first}, {second}");
        }
    }
}
