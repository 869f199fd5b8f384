//! The buffer for bytes that pass through user space, in transfers, fan-outs and filters.

use std::ops::Range;

use crate::sys::{Errno, Result, Spare};

#[cfg(test)]
mod tests;

/// The largest capacity in bytes. GNU coreutils measured it as the best block over eleven machines;
/// a larger block does not fit into the second-level cache (`ioblksize.h`).
pub(crate) const DEFAULT_CAPACITY: usize = 256 << 10;

/// The first capacity in bytes of a transfer of unknown length. It is enough for one message or a
/// small file, and less than the size from which the allocator asks the kernel for memory.
pub(crate) const FIRST_CAPACITY: usize = 64 << 10;

/// The smallest allocation in bytes, for a read that probably finds the end.
pub(crate) const MIN_CAPACITY: usize = 4096;

/// A length in bytes that fits into one datagram of every address family.
pub(crate) const SAFE_DATAGRAM: usize = 32 << 10;

/// The alignment in bytes of memory, lengths and positions that `O_DIRECT` accepts on every disk: a
/// page. Most disks accept 512 bytes.
pub(crate) const ALIGNMENT: usize = 4096;

/// The largest size of a buffer or pipe that a caller gets, in bytes. A larger one brings no speed,
/// and no kernel makes pipes larger than twice this size.
pub(crate) const LARGEST: usize = 1 << 30;

/// Returns the size of the buffer for a caller who asks for `bytes` bytes: whole pages, at least
/// one and at most [`LARGEST`] bytes.
pub(crate) fn whole_pages(bytes: usize) -> usize {
    bytes.clamp(1, LARGEST).next_multiple_of(ALIGNMENT)
}

/// Appends `rest` to `bytes`, or nothing if memory is refused. Without bytes before it, its memory is
/// taken over. Returns whether it has appended all.
pub(crate) fn append(bytes: &mut Vec<u8>, rest: Vec<u8>) -> bool {
    if bytes.is_empty() {
        *bytes = rest;
        true
    } else {
        append_copy(bytes, &rest)
    }
}

/// Appends a copy of `rest` to `bytes`, or nothing if memory is refused. Returns whether it has
/// appended all.
pub(crate) fn append_copy(bytes: &mut Vec<u8>, rest: &[u8]) -> bool {
    let has_memory = bytes.try_reserve_exact(rest.len()).is_ok();
    if has_memory {
        bytes.extend_from_slice(rest);
    }
    has_memory
}

/// The alignment of a buffer's memory, in bytes.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Alignment {
    /// For copies. `malloc(3)` returns addresses 16 bytes behind the start of a page. A processor
    /// that copies with `rep movsb` takes four times as long if the destination's offset in its
    /// page is 1 to 31 bytes larger than the source's (measured on an EPYC: 1.8 GB/s instead of 7.4
    /// from the page cache).
    CacheLine = 64,
    /// For `O_DIRECT`, and for memory that is allocated only once.
    Page = ALIGNMENT,
}

/// Memory for the bytes that were read or produced and that the sink or the filter has not accepted
/// yet: the *pending* bytes.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// The initialized bytes, in memory for all. To initialize memory that a read fills anyway
    /// takes as long as the read.
    bytes: Vec<u8>,
    /// The largest capacity to which it may grow.
    max_capacity: usize,
    /// The most bytes that are kept in front of `start`.
    head_room: usize,
    /// The index of the first aligned byte behind the head room.
    start: usize,
    /// The number of bytes from `start` on that reads may fill.
    capacity: usize,
    /// The indices of the bytes that were filled and not consumed.
    pending: Range<usize>,
    was_filled: bool,
    /// The least capacity that the allocator has refused. It is not asked for again: a transfer with
    /// little memory would allocate in each step.
    refused_capacity: usize,
}

impl Default for Buffer {
    fn default() -> Self {
        Self::with_max_capacity(DEFAULT_CAPACITY)
    }
}

impl Buffer {
    /// Returns a buffer for at most `max_capacity` bytes, which [`reserve`](Self::reserve)
    /// allocates.
    pub(crate) fn with_max_capacity(max_capacity: usize) -> Self {
        Self {
            bytes: Vec::new(),
            max_capacity,
            head_room: 0,
            start: 0,
            capacity: 0,
            pending: 0..0,
            was_filled: false,
            refused_capacity: usize::MAX,
        }
    }

    /// Returns a buffer with memory for `capacity` bytes, aligned to a page.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn with_capacity(capacity: usize) -> Result<Self> {
        Self::with_head_room(0, capacity)
    }

    /// Returns a buffer with memory for `capacity` bytes, aligned to a page, and for `head_room`
    /// bytes in front of it. The pending bytes move there before a read, so that the read fills
    /// aligned memory, and its bytes follow the pending ones without a gap. For a filter of lines,
    /// these are seldom more than a part of a line.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn with_head_room(head_room: usize, capacity: usize) -> Result<Self> {
        let mut buffer = Self {
            head_room,
            ..Self::with_max_capacity(capacity)
        };
        buffer.reallocate(capacity, Alignment::Page)?;
        Ok(buffer)
    }

    /// Returns the largest capacity, in bytes, to which the buffer may grow.
    pub(crate) fn max_capacity(&self) -> usize {
        self.max_capacity
    }

    /// Returns whether the buffer has memory.
    pub(crate) fn has_memory(&self) -> bool {
        self.capacity > 0
    }

    /// Takes the memory out of this buffer, and forgets the pending bytes. Returns `None` if there
    /// is none.
    pub(crate) fn take_memory(&mut self) -> Option<Self> {
        if !self.has_memory() {
            return None;
        }
        let empty = Self {
            was_filled: self.was_filled,
            ..Self::with_max_capacity(self.max_capacity)
        };
        let mut taken = std::mem::replace(self, empty);
        taken.clear();
        // Another transfer may have more luck.
        taken.refused_capacity = usize::MAX;
        Some(taken)
    }

    /// Puts the memory of `other` into this buffer, which has none. Returns `other` if it has more
    /// memory than this buffer may have.
    pub(crate) fn put_memory(&mut self, other: Self) -> Option<Self> {
        if other.capacity > self.max_capacity {
            return Some(other);
        }
        *self = Self {
            max_capacity: self.max_capacity,
            was_filled: self.was_filled,
            refused_capacity: self.refused_capacity,
            ..other
        };
        None
    }

    /// Allocates memory for `len` bytes, at most [`max_capacity`](Self::max_capacity). Keeps memory
    /// that is large enough and aligned to a page if that is asked for. Keeps the pending bytes.
    ///
    /// A fresh page costs more than moving the bytes in it, so that the first allocation is no
    /// larger than needed. The second one has the maximal size, so that a transfer allocates at
    /// most twice, unless that much memory is refused.
    ///
    /// # Errors
    ///
    /// `ENOMEM`. The buffer has its old memory, or less, which holds the pending bytes.
    pub(crate) fn reserve(&mut self, len: usize, alignment: Alignment) -> Result<()> {
        let len = len.min(self.max_capacity);
        let capacity = match self.capacity {
            0 => len.max(MIN_CAPACITY).min(self.max_capacity),
            capacity if capacity < len => self.max_capacity,
            // The first read may have gone through a second opening without `O_DIRECT`.
            capacity if !self.suits(alignment) => capacity,
            _ => return Ok(()),
        };
        let reserved = self.reallocate(capacity, alignment);
        reserved.or_else(|_| self.reserve_exactly(len, alignment))
    }

    /// Allocates memory for `len` bytes, rounded up to a page, if there is less, or if it is not
    /// aligned to a page and that is asked for. This may be more than
    /// [`max_capacity`](Self::max_capacity). Keeps the pending bytes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`. The buffer has its old memory, or less, which holds the pending bytes.
    pub(crate) fn reserve_exactly(&mut self, len: usize, alignment: Alignment) -> Result<()> {
        if self.capacity < len || !self.suits(alignment) {
            let capacity = len.next_multiple_of(ALIGNMENT).max(self.capacity);
            self.reallocate(capacity, alignment)?;
        }
        Ok(())
    }

    /// Returns for how many bytes behind the pending ones there is memory.
    pub(crate) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.pending.len())
    }

    /// Returns whether the memory is aligned to a page, or need not be.
    fn suits(&self, alignment: Alignment) -> bool {
        let memory = self.bytes.as_ptr().wrapping_add(self.start);
        match alignment {
            Alignment::CacheLine => true,
            Alignment::Page => memory.align_offset(ALIGNMENT) == 0,
        }
    }

    /// Replaces the memory, and keeps the pending bytes. Frees the old memory first, so that there
    /// are not two large allocations, unless there is no memory for a copy of the pending bytes. If
    /// memory is refused, as much as before is asked for again.
    fn reallocate(&mut self, capacity: usize, alignment: Alignment) -> Result<()> {
        if capacity >= self.refused_capacity {
            return Err(Errno::NOMEM);
        }
        let old_capacity = self.capacity;
        let pending = self.take_pending();
        let allocated = self.allocate(capacity, alignment);
        if allocated.is_err() {
            self.refused_capacity = capacity;
        }
        let has_memory = allocated.is_ok() || self.allocate(old_capacity, alignment).is_ok();
        if !has_memory || self.extend_from_slice(&pending).is_err() {
            self.replace_memory(pending);
        }
        allocated
    }

    /// Replaces the memory by that of `bytes`, which become the pending bytes.
    pub(crate) fn replace_memory(&mut self, bytes: Vec<u8>) {
        self.head_room = 0;
        self.start = 0;
        self.capacity = bytes.capacity();
        self.pending = 0..bytes.len();
        self.bytes = bytes;
    }

    /// Replaces the memory, and forgets the pending bytes. If the allocator refuses, the buffer has no
    /// memory.
    fn allocate(&mut self, capacity: usize, alignment: Alignment) -> Result<()> {
        let alignment = alignment as usize;
        (self.bytes, self.start, self.capacity) = (Vec::new(), 0, 0);
        self.clear();
        let len = self.head_room + capacity + alignment - 1;
        let reserved = self.bytes.try_reserve_exact(len);
        reserved.map_err(|_| Errno::NOMEM)?;
        let behind_head_room = self.bytes.as_ptr().wrapping_add(self.head_room);
        self.start = self.head_room + behind_head_room.align_offset(alignment);
        self.bytes.resize(self.start, 0);
        self.capacity = capacity;
        self.clear();
        Ok(())
    }

    /// Returns the memory behind the pending bytes, at most `len` bytes. [`fill`](Self::fill)
    /// appends the bytes that were written there.
    #[inline]
    pub(crate) fn spare_mut(&mut self, len: usize) -> &mut [u8] {
        self.spare(len).into_slice()
    }

    /// The same memory, which is not initialized if it need not be.
    #[inline]
    pub(crate) fn spare(&mut self, len: usize) -> Spare<'_> {
        self.compact();
        let start = self.pending.end;
        let len = len.min(self.start + self.capacity - start);
        Spare::behind(start, len, &mut self.bytes)
    }

    /// Moves the pending bytes to the start of the aligned memory, or into the head room in front
    /// of it as far as they fit.
    #[inline]
    pub(crate) fn compact(&mut self) {
        let start = self.start - self.pending.len().min(self.head_room);
        if self.pending.start != start {
            self.bytes.copy_within(self.pending.clone(), start);
            self.pending = start..start + self.pending.len();
        }
    }

    /// Returns whether the buffer has memory behind [head room](Self::with_head_room).
    pub(crate) fn is_for_filter_input(&self) -> bool {
        self.has_memory() && self.head_room > 0
    }

    /// Returns whether the head room is larger than the pending bytes.
    pub(crate) fn has_head_room_left(&self) -> bool {
        self.pending.len() < self.head_room
    }

    /// Appends the first `n` bytes of the spare memory to the pending bytes.
    #[inline]
    pub(crate) fn fill(&mut self, n: usize) {
        self.pending.end += n;
        self.was_filled = self.pending.end == self.start + self.capacity;
    }

    /// Moves the pending bytes of another buffer in front of the pending ones, into the head room.
    pub(crate) fn prepend(&mut self, other: &mut Self) {
        let bytes = other.pending();
        let start = self.pending.start - bytes.len();
        self.bytes[start..self.pending.start].copy_from_slice(bytes);
        self.pending.start = start;
        other.clear();
    }

    /// Appends a copy of these bytes to the pending ones. Allocates more memory if there is too
    /// little, which may be aligned differently.
    ///
    /// # Errors
    ///
    /// `ENOMEM`. The buffer has what it had.
    pub(crate) fn extend_from_slice(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.pending.end + bytes.len();
        if let Some(missing) = end.checked_sub(self.bytes.len()) {
            let reserved = self.bytes.try_reserve_exact(missing);
            reserved.map_err(|_| Errno::NOMEM)?;
            self.bytes.resize(end, 0);
        }
        self.capacity = self.capacity.max(end.saturating_sub(self.start));
        self.bytes[self.pending.end..end].copy_from_slice(bytes);
        self.pending.end = end;
        Ok(())
    }

    /// Returns whether the buffer holds the most bytes that it may hold: a larger capacity is not
    /// allocated.
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() == self.capacity && self.capacity >= self.max_capacity
    }

    /// Returns whether the last read filled the rest of the buffer, so that the source probably has
    /// more.
    pub(crate) fn was_filled(&self) -> bool {
        self.was_filled
    }

    /// Returns the pending bytes.
    #[inline]
    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes[self.pending.clone()]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Removes the first `n` pending bytes and returns them.
    #[inline]
    pub(crate) fn consume(&mut self, n: usize) -> &[u8] {
        let consumed = self.pending.start..self.pending.start + n;
        self.pending.start = consumed.end;
        &self.bytes[consumed]
    }

    /// Removes all but the first `len` pending bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.pending.end = self.pending.end.min(self.pending.start + len);
    }

    /// Removes the pending bytes.
    fn clear(&mut self) {
        self.pending = self.start..self.start;
    }

    /// Removes the pending bytes and returns a copy of them, or the memory that holds them if none
    /// is left for a copy.
    pub(crate) fn take_pending(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(self.pending.len()).is_ok() {
            bytes.extend_from_slice(self.pending());
            self.clear();
            return bytes;
        }
        std::mem::swap(&mut bytes, &mut self.bytes);
        bytes.truncate(self.pending.end);
        bytes.drain(..self.pending.start);
        *self = Self {
            was_filled: self.was_filled,
            refused_capacity: self.refused_capacity,
            ..Self::with_max_capacity(self.max_capacity)
        };
        bytes
    }
}
