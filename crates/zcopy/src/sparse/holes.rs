//! The holes made in a sink.

use std::ops::Range;

use super::extents::FIRST_PIECE;
use super::{BLOCK, ShownTo, ZEROS, ZeroBlocks};
use crate::call_error::{CallError, Cause};
use crate::endpoint::Endpoint;
use crate::fd_info::{FdInfo, FileSystem};
use crate::reopened::Reopened;
use crate::side::Side;
use crate::sys::{Blocking, Errno, Kernel, retried};

/// The longest hole at the end of the sink, in bytes, that is made of zeros that were read and that
/// does not have its length yet. If giving it its length fails, this many bytes are handed back at
/// most.
const TAIL: u64 = 1 << 20;

/// The largest block, in bytes, of a file system in user space.
///
/// fuse2fs 1.47 returns success for a hole from the beginning of a block to a place within that
/// block, and leaves the old bytes. So on FUSE a hole that is shorter than this block gets zeros
/// instead.
const LARGEST_BLOCK_OF_A_SERVER: u64 = 64 << 10;

/// The holes made in a sink.
///
/// The sink is extended by writing, never by `ftruncate(2)`: between reading the size and setting
/// it, another process may extend the file, and `ftruncate(2)` would cut its bytes off. All calls
/// here pass offsets within a hole, and none reaches beyond its end, where another process may have
/// written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holes {
    pub(crate) zero_blocks: ZeroBlocks,
    /// An inspector sees the zeros of a hole once the sink is certain to have it.
    shown_to: ShownTo,
    ability: Ability,
    /// The number of bytes left as holes.
    pub(crate) bytes: u64,
    /// The last hole, if the sink does not have its length yet. A later write gives it its length,
    /// or [`Holes::finish`].
    tail: Range<u64>,
}

/// Whether a sink can have holes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ability {
    /// No: it is not a regular file, it appends, or it has refused a hole.
    #[default]
    Refuses,
    /// Unknown until the first hole at its end. FUSE servers may refuse to write past the end of a
    /// file.
    Untested,
    Holds,
    /// It is `/dev/null`, which stores nothing.
    Discards,
}

impl Holes {
    /// Creates the state for a regular file that does not append.
    pub(crate) fn new(sink: &FdInfo, zero_blocks: ZeroBlocks, shown_to: ShownTo) -> Self {
        let ability = match sink.file_system {
            // The last byte is written by a second descriptor, which may be impossible to open.
            _ if sink.direct => Ability::Untested,
            FileSystem::Ext4 | FileSystem::Tmpfs | FileSystem::Btrfs | FileSystem::Xfs => {
                Ability::Holds
            }
            _ => Ability::Untested,
        };
        Self {
            zero_blocks,
            shown_to,
            ability,
            ..Self::default()
        }
    }

    /// Creates the state for `/dev/null`, where holes are skipped.
    pub(crate) fn discarded() -> Self {
        Self {
            ability: Ability::Discards,
            ..Self::default()
        }
    }

    /// Whether the sink can have holes, as far as is known.
    pub(crate) fn are_possible(&self) -> bool {
        matches!(self.ability, Ability::Untested | Ability::Holds)
    }

    /// Whether the sink has the length that all its holes require.
    pub(crate) fn are_certain(&self) -> bool {
        self.tail.is_empty()
    }

    /// Returns the longest length of the last hole before the sink is given its length.
    fn longest_tail(&self) -> u64 {
        match (self.zero_blocks, self.shown_to) {
            (ZeroBlocks::Holes, _) => TAIL,
            (ZeroBlocks::Written, ShownTo::Inspector) => FIRST_PIECE,
            (ZeroBlocks::Written, ShownTo::Nobody) => u64::MAX,
        }
    }

    /// Makes a hole of the next bytes of the sink, at most `len`. Returns its length: 0 if this
    /// sink cannot have a hole there, so that the bytes must be written as zeros.
    ///
    /// Punches out what the sink already holds there. Skips what is past its end. Reads the size
    /// each time, because other processes may extend the sink meanwhile.
    ///
    /// # Errors
    ///
    /// The sink could not be given its length, for want of space or beyond its limits.
    pub(crate) fn make<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: &mut Endpoint<'_>,
        reopened: &mut Reopened,
        len: u64,
    ) -> Result<u64, CallError> {
        if self.ability == Ability::Discards {
            self.bytes += len;
            return Ok(len);
        }
        if !self.are_possible() || sink.reserved() > 0 {
            return Ok(0);
        }
        let left = match reserve(kernel, sink, len) {
            Some(hole) => self.make_reserved(kernel, sink, reopened, hole)?,
            None => 0,
        };
        if left == 0 {
            self.ability = Ability::Refuses;
        }
        sink.advance(left);
        self.bytes += left;
        sink.release(kernel);
        Ok(left)
    }

    /// Makes a hole in this reserved range of the sink, and returns its length, or 0 if it cannot
    /// be made. The part beyond the end of the sink becomes a hole when a write follows it, or when
    /// [`lengthen`] writes its last byte.
    ///
    /// If the range crosses the end of the sink and the length has to be set now, only the part
    /// before the end becomes a hole, and the caller asks again for the rest. Two calls for the
    /// whole range could fail one after the other: if the sink is lengthened and the kernel then
    /// refuses to punch the hole, the sink is longer than the bytes that it has accepted; if the
    /// hole is punched and no space is left to lengthen the sink, the old bytes of the sink are
    /// lost.
    fn make_reserved<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: &Endpoint<'_>,
        reopened: &mut Reopened,
        mut hole: Range<u64>,
    ) -> Result<u64, CallError> {
        let size = kernel.file_size(sink.fd);
        let size = size.map_err(CallError::of_call("fstat", Side::Sink))?;
        let mut tail = if self.tail.end == hole.start {
            self.tail.start..hole.end
        } else {
            hole.clone()
        };
        let is_untested = self.ability == Ability::Untested;
        let is_long = tail.end - tail.start >= self.longest_tail();
        let needs_length = size < hole.end && (is_untested || is_long);
        if hole.start < size && needs_length {
            hole.end = size;
        } else if needs_length {
            match lengthen(kernel, sink, reopened, &tail) {
                Ok(()) => self.ability = Ability::Holds,
                Err(error) if is_untested && !is_final(&error) => return Ok(0),
                Err(error) => return Err(error),
            }
            tail.start = hole.end;
        }
        let inside = hole.start..hole.end.min(size);
        if is_within_a_block_of_a_server(sink, &inside) {
            // The caller asks again for the rest.
            let written = write_zeros(kernel, sink, reopened, &inside);
            hole.end = hole.start + written.unwrap_or(0) as u64;
        } else if !inside.is_empty() && punch(kernel, sink, &inside).is_err() {
            return Ok(0);
        }
        if size >= hole.end {
            tail = hole.end..hole.end;
        }
        self.tail = tail;
        Ok(hole.end - hole.start)
    }

    /// Gives the sink its length if the transfer ends with a hole, and no write has followed it.
    /// Does nothing if data followed: if the sink is shorter now, another process has truncated it.
    ///
    /// # Errors
    ///
    /// The sink is left as it is.
    pub(crate) fn finish<K: Kernel>(
        &self,
        kernel: &K,
        sink: &Endpoint<'_>,
        reopened: &mut Reopened,
    ) -> Result<(), CallError> {
        if self.tail.is_empty() || sink.position() != Some(self.tail.end) {
            return Ok(());
        }
        let size = kernel.file_size(sink.fd);
        if size.map_err(CallError::of_call("fstat", Side::Sink))? >= self.tail.end {
            return Ok(());
        }
        lengthen(kernel, sink, reopened, &self.tail)
    }

    /// Removes the part of the last hole that lies beyond the end of the sink. Returns its length.
    pub(crate) fn take_back<K: Kernel>(&mut self, kernel: &K, sink: &Endpoint<'_>) -> u64 {
        let Ok(size) = kernel.file_size(sink.fd) else {
            return 0;
        };
        let end = size.clamp(self.tail.start, self.tail.end);
        let missing = self.tail.end - end;
        self.tail.end = end;
        self.bytes -= missing;
        missing
    }
}

/// Reserves the sink's next `len` bytes. `None` if they reach beyond the largest offset, or if
/// bytes that were reserved before have to be written first.
fn reserve<K: Kernel>(kernel: &K, sink: &mut Endpoint<'_>, len: u64) -> Option<Range<u64>> {
    let is_reserved = sink.reserve_ignoring_free_space(kernel, len).ok()? == len;
    let start = sink.position().filter(|_| is_reserved)?;
    let end = start.checked_add(len)?;
    i64::try_from(end).ok().map(|_| start..end)
}

fn punch<K: Kernel>(kernel: &K, sink: &Endpoint<'_>, range: &Range<u64>) -> Result<(), Errno> {
    retried(|| kernel.punch_hole(sink.fd, range.start, range.end - range.start))
}

/// Extends the sink to the end of a hole, then frees the block that this takes by punching the hole
/// again. If the file system cannot punch, the hole is shorter by a block.
fn lengthen<K: Kernel>(
    kernel: &K,
    sink: &Endpoint<'_>,
    reopened: &mut Reopened,
    hole: &Range<u64>,
) -> Result<(), CallError> {
    write_last_byte(kernel, sink, reopened, hole)?;
    let _ = punch(kernel, sink, hole);
    Ok(())
}

/// Whether this range of the sink may lie within one block of a file system in user space.
fn is_within_a_block_of_a_server(sink: &Endpoint<'_>, range: &Range<u64>) -> bool {
    let len = range.end.saturating_sub(range.start);
    sink.info.file_system == FileSystem::Fuse && (1..LARGEST_BLOCK_OF_A_SERVER).contains(&len)
}

/// Writes a zero as the last byte of a hole.
fn write_last_byte<K: Kernel>(
    kernel: &K,
    sink: &Endpoint<'_>,
    reopened: &mut Reopened,
    hole: &Range<u64>,
) -> Result<(), CallError> {
    match write_zeros(kernel, sink, reopened, &(hole.end - 1..hole.end)) {
        Ok(0) => Err(CallError::new("pwrite", Side::Sink, Cause::ReturnedZero)),
        Ok(_) => Ok(()),
        Err(errno) => Err(CallError::new("pwrite", Side::Sink, errno)),
    }
}

/// Writes zeros once, from the start of the range. Returns their number: a block at most.
fn write_zeros<K: Kernel>(
    kernel: &K,
    sink: &Endpoint<'_>,
    reopened: &mut Reopened,
    range: &Range<u64>,
) -> Result<usize, Errno> {
    let zeros = &ZEROS[..BLOCK.min((range.end - range.start) as usize)];
    retried(|| {
        if sink.info.direct {
            reopened.write_at(kernel, sink, range.start, zeros)
        } else {
            kernel.write(sink.fd, Some(range.start), zeros, Blocking::MaySleep)
        }
    })
}

/// Whether writing zeros would fail as well: there is no space for the file's new length, or it is
/// not allowed.
fn is_final(error: &CallError) -> bool {
    matches!(
        error.cause,
        Cause::Errno(Errno::FBIG | Errno::NOSPC | Errno::DQUOT)
    )
}
