//! Reservations: how a transfer moves bytes at a cursor that others move, too.
//!
//! The kernel serializes `read(2)`, `write(2)` and `lseek(2)` on one open file. It does not
//! serialize `splice(2)`, `sendfile(2)` and `copy_file_range(2)`: without an offset, these read the
//! cursor, sleep or copy, and then store the cursor, over whatever others have stored meanwhile. So
//! a transfer reserves the bytes with one `lseek(fd, n, SEEK_CUR)`. The result is the end of a
//! range that no other user of the open file gets, and the call passes the offset of that range.
//!
//! [`Endpoint::release`] ends a reservation only if no other process or thread has moved the cursor
//! meanwhile. [`Endpoint::unreserve`], and the functions that begin with its name, move the cursor
//! back by a number of bytes, wherever it is: they serve the part of a range that lies beyond the
//! end of the file.

use std::os::fd::BorrowedFd;

use super::{Endpoint, Positioning};
use crate::buffer::ALIGNMENT;
use crate::call_error::{CallError, Cause};
use crate::fd_info::Kind;
use crate::side::Side;
use crate::sys::{Blocking, Errno, Kernel, Result, SeekFrom, read_up_to};

/// The number of free bytes of a file system that are never reserved.
const SPARE_SPACE: u64 = 16 << 20;

/// The most bytes of a reservation that are read, if the cursor cannot be moved back over it. One
/// step between files reserves no more than this, except over a hole.
pub(crate) const MAX_READ_BACK: u64 = 64 << 20;

impl Endpoint<'_> {
    /// Whether the bytes move at the cursor of a file, so that calls must pass the offset of a
    /// reserved range.
    pub(crate) fn goes_by_cursor(&self) -> bool {
        self.positioning == Positioning::Cursor
    }

    /// Whether this file's cursor could not be moved. Then no call may pass an offset, and only
    /// calls that move the cursor themselves are exact.
    pub(crate) fn has_lost_position(&self) -> bool {
        self.info.is_seekable() && self.positioning == Positioning::None
    }

    /// Whether another process or thread has moved the cursor. From then on `read(2)` and
    /// `write(2)` are exact, while a reservation that cannot be filled would leave a gap.
    pub(crate) fn cursor_was_moved(&self) -> bool {
        self.cursor_was_moved
    }

    /// The number of bytes that are reserved and not moved yet.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Reserves up to `len` bytes of a source. Returns how many bytes the next call may read at
    /// [`Endpoint::fd_at`]: 0 at the end of the file.
    ///
    /// Uses the rest of the last reservation first. An endpoint without a cursor needs no
    /// reservation.
    ///
    /// Reserves nothing beyond the end of the file, unless the position or the size is not known,
    /// or another process or thread moves the cursor, too. Then it moves the cursor back at once
    /// over the bytes beyond the end.
    ///
    /// # Errors
    ///
    /// `EINVAL` or `EOVERFLOW` if the range ends beyond the largest offset; every errno of
    /// `fstat(2)` and `lseek(2)`, except `ESPIPE`.
    pub(crate) fn reserve_to_read<K: Kernel>(&mut self, kernel: &K, len: u64) -> Result<u64> {
        if !self.goes_by_cursor() {
            return Ok(len);
        }
        if self.reserved > 0 {
            return Ok(len.min(self.reserved));
        }
        let len = self.clamp_to_eof(kernel, len)?;
        if len == 0 {
            return Ok(0);
        }
        self.reserve(kernel, len)?;
        if self.has_lost_position() {
            return Ok(len);
        }
        if self.cursor_was_moved
            && let Some(position) = self.position
        {
            let held = self.clamp_to_eof_from(kernel, position, self.reserved)?;
            self.unreserve(kernel, self.reserved - held)?;
        }
        Ok(self.reserved)
    }

    /// Limits `len` to the bytes between the position and the end of a file: 0 if the size of a
    /// regular file is 0 or unknown. Does not limit it for other sources.
    ///
    /// # Errors
    ///
    /// Every errno of `fstat(2)`.
    pub(crate) fn clamp_to_known_eof<K: Kernel>(&mut self, kernel: &K, len: u64) -> Result<u64> {
        let len = self.clamp_to_eof(kernel, len)?;
        let is_unsure = self.info.kind == Kind::Regular && self.info.size.is_none();
        Ok(if is_unsure { 0 } else { len })
    }

    /// Limits `len` to the bytes between the position and the end of the file, if the position is
    /// known.
    fn clamp_to_eof<K: Kernel>(&mut self, kernel: &K, len: u64) -> Result<u64> {
        match self.position {
            Some(position) if self.reserved == 0 => self.clamp_to_eof_from(kernel, position, len),
            _ => Ok(len),
        }
    }

    /// Ignores the free space of the sink's file system from now on.
    pub(crate) fn ignore_free_space(&mut self) {
        self.free_space = None;
    }

    /// Reserves up to `len` bytes of a sink for data. Returns how many bytes the next call may
    /// write at [`Endpoint::fd_at`].
    ///
    /// If the disk fills up, the range cannot be filled, and stays a gap once another process or
    /// thread has moved the cursor. So this reserves at most a quarter of the free space, and
    /// nothing if little is free.
    ///
    /// # Errors
    ///
    /// Those of [`Endpoint::reserve_ignoring_free_space`]; [`Cause::DiskNearlyFull`].
    pub(crate) fn reserve_to_write<K: Kernel>(
        &mut self,
        kernel: &K,
        len: u64,
    ) -> std::result::Result<u64, Cause> {
        let is_file = self.info.kind == Kind::Regular;
        let is_asked = is_file && self.goes_by_cursor() && self.reserved == 0;
        let len = match self.free_space {
            Some(room) if is_asked && room < len => {
                let status = kernel.file_system(self.fd).ok();
                let free = status.and_then(|status| status.free);
                let room = free.map_or(u64::MAX, reservable);
                self.free_space = Some(room);
                len.min(room)
            }
            _ => len,
        };
        if len == 0 {
            return Err(Cause::DiskNearlyFull);
        }
        let len = self.reserve_ignoring_free_space(kernel, len)?;
        if is_asked {
            self.free_space = self.free_space.map(|room| room.saturating_sub(len));
        }
        Ok(len)
    }

    /// Reserves `len` bytes of a sink, however little space is free: for a clone or a hole, which
    /// need none, and for a write to a reopened sink. Returns how many bytes the next call may
    /// write at [`Endpoint::fd_at`]: fewer if a part of the last reservation is left.
    ///
    /// # Errors
    ///
    /// Those of [`Endpoint::reserve_to_read`]; `ENOSPC` at the end of a disk.
    pub(crate) fn reserve_ignoring_free_space<K: Kernel>(
        &mut self,
        kernel: &K,
        len: u64,
    ) -> Result<u64> {
        if !self.goes_by_cursor() {
            return Ok(len);
        }
        if self.reserved == 0 {
            // A disk does not grow: write what fits, then fail.
            let len = match (self.info.kind, self.info.size, self.position) {
                (Kind::Block, Some(size), Some(position)) => len.min(size.saturating_sub(position)),
                _ => len,
            };
            if len == 0 {
                return Err(Errno::NOSPC);
            }
            self.reserve(kernel, len)?;
        }
        Ok(match self.reserved {
            0 => len,
            reserved => len.min(reserved),
        })
    }

    /// Moves the cursor over `len` bytes, which belong to this transfer from then on. They may lie
    /// beyond the end of a source: the caller must [unreserve](Endpoint::unreserve) what a read
    /// does not return.
    ///
    /// If the file has no cursor that can be moved, reserves nothing, and
    /// [`Endpoint::has_lost_position`] is true from then on.
    ///
    /// # Errors
    ///
    /// Those of [`Endpoint::reserve_to_read`].
    pub(crate) fn reserve<K: Kernel>(&mut self, kernel: &K, len: u64) -> Result<()> {
        let step = i64::try_from(len).map_err(|_| Errno::OVERFLOW)?;
        let end = match kernel.seek(self.fd, SeekFrom::Current(step)) {
            Err(Errno::SPIPE) => {
                self.positioning = Positioning::None;
                // No call may pass an offset for a cursor that cannot be moved.
                self.position = None;
                return Ok(());
            }
            end => end?,
        };
        let start = end.saturating_sub(len);
        if self.position != Some(start) {
            self.cursor_was_moved |= self.position.is_some();
            self.contiguous_from = start;
        }
        self.position = Some(start);
        self.reserved = len;
        Ok(())
    }

    /// Limits `len` to the bytes from `position` to the end of the file. Does not limit it if the
    /// size is 0 or unknown.
    ///
    /// Calls `fstat(2)` if the position has reached the known size, or if others move the cursor,
    /// too.
    fn clamp_to_eof_from<K: Kernel>(&mut self, kernel: &K, position: u64, len: u64) -> Result<u64> {
        let known = self.info.size.unwrap_or(0);
        if position < known && !self.cursor_was_moved {
            return Ok(len.min(known - position));
        }
        // The size may have changed.
        if self.info.kind != Kind::Block {
            let size = kernel.file_size(self.fd)?;
            self.info.size = Some(size).filter(|&size| size > 0);
        }
        let held = self.info.size.map(|size| size.saturating_sub(position));
        Ok(held.map_or(len, |held| len.min(held)))
    }

    /// Moves the cursor back over the last `n` reserved bytes, which lie beyond the end of the
    /// source.
    ///
    /// # Errors
    ///
    /// Every errno of `lseek(2)`.
    ///
    /// # Kernel notes
    ///
    /// The cursor moves back by `n` wherever others have moved it, because relative moves commute.
    /// If two readers reserve beyond the end, and both unreserve what does not exist, the cursor is
    /// at the end of the file.
    pub(crate) fn unreserve<K: Kernel>(&mut self, kernel: &K, n: u64) -> Result<()> {
        let n = n.min(self.reserved);
        if n > 0 {
            let step = i64::try_from(n).map_err(|_| Errno::OVERFLOW)?;
            kernel.seek(self.fd, SeekFrom::Current(-step))?;
            self.reserved -= n;
        }
        Ok(())
    }

    /// Ends the reservation of a source after a call that reported its end.
    ///
    /// If another process or thread has moved the cursor, only the bytes beyond the end of the file
    /// are unreserved; those before it stay reserved for a later read.
    ///
    /// # Errors
    ///
    /// Every errno of `lseek(2)` or `fstat(2)`.
    pub(crate) fn unreserve_beyond_eof<K: Kernel>(&mut self, kernel: &K) -> Result<()> {
        if self.release(kernel) {
            return Ok(());
        }
        let held = match self.position {
            Some(position) => self.clamp_to_eof_from(kernel, position, self.reserved)?,
            None => 0,
        };
        self.unreserve(kernel, self.reserved - held)
    }

    /// Unreserves the bytes behind the next `n`, which a read has returned, as
    /// [`Endpoint::unreserve_beyond_eof`] does. The caller then calls [`Endpoint::advance`].
    ///
    /// # Errors
    ///
    /// Those of [`Endpoint::unreserve_beyond_eof`].
    pub(crate) fn unreserve_after<K: Kernel>(&mut self, kernel: &K, n: u64) -> Result<()> {
        let n = n.min(self.reserved);
        self.advance(n);
        let unreserved = self.unreserve_beyond_eof(kernel);
        self.position = self.position.map(|position| position - n);
        self.reserved += n;
        unreserved
    }

    /// Ends the whole reservation of a source after a read that returned 0, wherever another
    /// process has moved the cursor.
    ///
    /// # Errors
    ///
    /// Every errno of `lseek(2)`.
    pub(crate) fn unreserve_all<K: Kernel>(&mut self, kernel: &K) -> Result<()> {
        if self.release(kernel) {
            return Ok(());
        }
        self.unreserve(kernel, self.reserved)
    }

    /// Moves the position over `n` bytes that no call moves, as after a clone or over a hole.
    ///
    /// # Errors
    ///
    /// Those of [`Endpoint::reserve_to_read`].
    pub(crate) fn skip<K: Kernel>(&mut self, kernel: &K, n: u64) -> Result<()> {
        let held = n.min(self.reserved);
        self.advance(held);
        let rest = n - held;
        if rest > 0 && self.goes_by_cursor() {
            self.reserve(kernel, rest)?;
        }
        if rest > 0 && self.has_lost_position() {
            return Err(Errno::SPIPE);
        }
        self.advance(rest);
        Ok(())
    }

    /// Moves the position back over the last `n` bytes, which were read and not used, and gives
    /// back the reservation. Returns false if this endpoint has no cursor, or if another process or
    /// thread has moved it meanwhile, now or between two of these bytes. Then these bytes stay
    /// consumed.
    ///
    /// # Kernel notes
    ///
    /// No call moves a cursor on the condition that it has a certain position. So another process
    /// or thread may use the cursor between the check and the move, or between the move and its
    /// undoing.
    pub(crate) fn rewind<K: Kernel>(&mut self, kernel: &K, n: u64) -> bool {
        let back = n + self.reserved;
        if back == 0 {
            return true;
        }
        if self.positioning == Positioning::Offset {
            self.position = self.position.map(|position| position.saturating_sub(n));
            return true;
        }
        let Ok(step) = i64::try_from(back) else {
            return false;
        };
        let start = self.position.map(|position| position.saturating_sub(n));
        let is_contiguous = start.is_none_or(|start| start >= self.contiguous_from);
        if !self.goes_by_cursor() || !is_contiguous {
            return false;
        }
        let seek = |step| kernel.seek(self.fd, SeekFrom::Current(step)).ok();
        let expected = self.position.map(|position| position + self.reserved);
        if expected.is_some() && seek(0) != expected {
            self.cursor_was_moved = true;
            return false;
        }
        let Some(found) = seek(-step) else {
            return false;
        };
        if expected.is_some_and(|expected| found != expected - back) {
            seek(step);
            self.cursor_was_moved = true;
            return false;
        }
        self.position = self.position.map(|_| found);
        self.reserved = 0;
        true
    }

    /// Moves the position back over `bytes`, which were read and not used, and over all reserved
    /// bytes. Returns false where [`Endpoint::rewind`] does.
    ///
    /// If the position is not known, compares `bytes` with the file's contents before the cursor,
    /// and moves only if they are equal: the next reader then gets these bytes again, and no others
    /// twice.
    pub(crate) fn rewind_over<K: Kernel>(&mut self, kernel: &K, bytes: &[u8]) -> bool {
        let is_unknown = self.goes_by_cursor() && self.position.is_none() && !bytes.is_empty();
        if is_unknown && !self.holds_before_cursor(kernel, bytes) {
            return false;
        }
        self.rewind(kernel, bytes.len() as u64)
    }

    /// Whether the file holds `bytes` right before the cursor.
    fn holds_before_cursor<K: Kernel>(&self, kernel: &K, bytes: &[u8]) -> bool {
        let cursor = kernel.seek(self.fd, SeekFrom::Current(0)).ok();
        let Some(start) = cursor.and_then(|cursor| cursor.checked_sub(bytes.len() as u64)) else {
            return false;
        };
        let mut there = Vec::new();
        self.read_at(kernel, start, bytes.len(), &mut there);
        there == bytes
    }

    /// Moves the cursor back over all reserved bytes. Returns false if another process or thread
    /// has moved the cursor meanwhile: the range then stays reserved, and is a gap in a sink.
    pub(crate) fn release<K: Kernel>(&mut self, kernel: &K) -> bool {
        self.reserved == 0 || self.rewind(kernel, 0)
    }

    /// Releases the reservation of a sink at the end of a transfer.
    ///
    /// # Errors
    ///
    /// [`Cause::Gap`], if the range stays reserved.
    pub(crate) fn release_or_gap<K: Kernel>(
        &mut self,
        kernel: &K,
    ) -> std::result::Result<(), CallError> {
        let gap = CallError::new("lseek", Side::Sink, Cause::Gap);
        self.release(kernel).then_some(()).ok_or(gap)
    }

    /// Moves the cursor back over the reservation of a sink that has refused an offset with
    /// `ESPIPE`, so that calls without one can follow. Returns whether it did.
    ///
    /// # Kernel notes
    ///
    /// Many files of procfs have a cursor that lseek(2) moves, and accept write(2), but neither
    /// pwrite(2) nor splice(2).
    pub(crate) fn give_up_offsets<K: Kernel>(&mut self, kernel: &K) -> bool {
        if self.reserved == 0 || !self.release(kernel) {
            return false;
        }
        self.positioning = Positioning::None;
        self.position = None;
        true
    }

    /// Appends the reservation of a source, which the cursor cannot be moved back over, to `bytes`.
    /// Appends at most [`MAX_READ_BACK`] bytes of a longer hole, fewer if the file ends or a read
    /// fails, and none if memory is refused; the rest stays taken.
    pub(crate) fn read_reserved<K: Kernel>(&mut self, kernel: &K, bytes: &mut Vec<u8>) {
        let len = self.reserved.min(MAX_READ_BACK) as usize;
        if let Some(position) = self.position {
            let n = self.read_at(kernel, position, len, bytes);
            self.advance(n as u64);
        }
        self.reserved = 0;
    }

    /// Appends `len` bytes at `offset` to `bytes`, and returns their number: fewer if the file ends,
    /// a read fails before, or memory is refused.
    fn read_at<K: Kernel>(
        &self,
        kernel: &K,
        offset: u64,
        len: usize,
        bytes: &mut Vec<u8>,
    ) -> usize {
        read_up_to(len, bytes, |filled, room| {
            let offset = offset + filled as u64;
            match kernel.read(self.fd, Some(offset), room, Blocking::MaySleep) {
                Err(Errno::INVAL) if self.info.direct => {
                    read_in_blocks(kernel, self.fd, offset, room)
                }
                read => read,
            }
        })
    }
}

/// Returns how many of `free` bytes may be reserved. Others may fill the disk at the same time.
pub(super) fn reservable(free: u64) -> u64 {
    free.saturating_sub(SPARE_SPACE) / 4
}

/// Reads at an unaligned offset of a file that is open with `O_DIRECT`, by reading the whole blocks
/// around it.
fn read_in_blocks<K: Kernel>(
    kernel: &K,
    fd: BorrowedFd<'_>,
    offset: u64,
    room: &mut [u8],
) -> Result<usize> {
    let before = (offset % ALIGNMENT as u64) as usize;
    let len = (before + room.len()).next_multiple_of(ALIGNMENT);
    let mut memory = Vec::new();
    let reserved = memory.try_reserve_exact(len + ALIGNMENT);
    reserved.map_err(|_| Errno::NOMEM)?;
    memory.resize(len + ALIGNMENT, 0);
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    let blocks = &mut memory[start..][..len];
    let from = Some(offset - before as u64);
    let n = kernel.read(fd, from, blocks, Blocking::MaySleep)?;
    let n = n.saturating_sub(before).min(room.len());
    room[..n].copy_from_slice(&blocks[before..][..n]);
    Ok(n)
}
