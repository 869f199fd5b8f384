//! The holes made in a sink.

use std::ops::Range;

use super::extents::FIRST_PIECE;
use super::{ShownTo, ZeroBlocks};
use crate::call_error::{CallError, Cause};
use crate::endpoint::Endpoint;
use crate::fd_info::{FdInfo, FileSystem};
use crate::reopened::Reopened;
use crate::side::Side;
use crate::sys::{Blocking, Errno, Kernel, retried};

/// So long may zeros that were read wait as a hole at the end of the sink before they are given a length:
/// should that fail, no more than this has to be handed back.
const TAIL: u64 = 1 << 20;

/// The holes made in a sink.
///
/// The sink is lengthened by writing, never by `ftruncate(2)`: between the question for the size and the
/// answer somebody else may have extended the file, and what they wrote would be cut off. All calls here
/// name offsets within a hole, and no call reaches beyond its end: what lies there may be somebody else's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holes {
    pub(crate) zero_blocks: ZeroBlocks,
    /// An inspector waits for the zeros of a hole until it is certain that the sink has it.
    shown_to: ShownTo,
    ability: Ability,
    /// Bytes left as holes so far.
    pub(crate) bytes: u64,
    /// The last hole, if it gives the sink no length yet: only a write behind it does, or [`Holes::finish`].
    tail: Range<u64>,
}

/// Whether a sink can have holes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ability {
    /// It cannot: it is no regular file, it appends, or it has refused one.
    #[default]
    Refuses,
    /// The first hole at its end will tell. FUSE servers may refuse to write past the end of a file.
    Untested,
    Holds,
    /// It is `/dev/null`, which holds nothing.
    Discards,
}

impl Holes {
    /// Holes in a regular file that does not append.
    pub(crate) fn new(sink: &FdInfo, zero_blocks: ZeroBlocks, shown_to: ShownTo) -> Self {
        let ability = match sink.file_system {
            // The one byte goes by another opening, which may not be possible.
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

    /// Holes of a source that goes to `/dev/null`. They are passed over.
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

    /// Whether the sink has the length that all holes so far give it.
    pub(crate) fn are_certain(&self) -> bool {
        self.tail.is_empty()
    }

    /// How long the last hole may become before the sink is given its length.
    fn longest_tail(&self) -> u64 {
        match (self.zero_blocks, self.shown_to) {
            (ZeroBlocks::Holes, _) => TAIL,
            (ZeroBlocks::Written, ShownTo::Inspector) => FIRST_PIECE,
            (ZeroBlocks::Written, ShownTo::Nobody) => u64::MAX,
        }
    }

    /// Leaves the next bytes of the sink as a hole, at most `len`, and returns how many. 0 if this sink cannot have one
    /// there: the bytes must then be written as zeros.
    ///
    /// What the sink already holds there is punched out; past its end there is nothing to do but to
    /// step over. Its size is asked each time: others may extend it meanwhile.
    ///
    /// # Errors
    ///
    /// The sink could not be given its length, for want of room or beyond its limits.
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
            Some(hole) => self.leave(kernel, sink, reopened, hole)?,
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

    /// Sees to it that these bytes of the sink are a hole, or will be when something is written behind them, and returns how
    /// many are: 0 if they cannot be.
    ///
    /// If the hole begins before the end of the sink, and must be given a length beyond it, only the bytes before the end are
    /// left. So the sink is never longer than what it has accepted, should the kernel refuse to punch them out, and it
    /// holds what it held beyond them, should there be no room for the rest.
    fn leave<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: &Endpoint<'_>,
        reopened: &mut Reopened,
        mut hole: Range<u64>,
    ) -> Result<u64, CallError> {
        let size = size(kernel, sink)?;
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
            match write_last_byte(kernel, sink, reopened, &tail) {
                Ok(()) => self.ability = Ability::Holds,
                Err(error) if is_untested && !is_final(&error) => return Ok(0),
                Err(error) => return Err(error),
            }
            // If this is refused, the hole is shorter by a block.
            let _ = punch(kernel, sink, &tail);
            tail.start = hole.end;
        }
        let inside = hole.start..hole.end.min(size);
        if !inside.is_empty() && punch(kernel, sink, &inside).is_err() {
            return Ok(0);
        }
        if size >= hole.end {
            tail = hole.end..hole.end;
        }
        self.tail = tail;
        Ok(hole.end - hole.start)
    }

    /// Gives the sink its length if the last thing that the transfer left there is a hole, which no write has
    /// given one. If data followed, there is nothing to do: should the sink be shorter by now, somebody
    /// has truncated it.
    ///
    /// # Errors
    ///
    /// The sink stays as it is.
    pub(crate) fn finish<K: Kernel>(
        &self,
        kernel: &K,
        sink: &Endpoint<'_>,
        reopened: &mut Reopened,
    ) -> Result<(), CallError> {
        if self.tail.is_empty() || sink.position() != Some(self.tail.end) {
            return Ok(());
        }
        if size(kernel, sink)? >= self.tail.end {
            return Ok(());
        }
        lengthen(kernel, sink, reopened, &self.tail)
    }

    /// Takes back as much of the last hole as lies beyond the end of the sink, and says how many bytes that is.
    pub(crate) fn take_back<K: Kernel>(&mut self, kernel: &K, sink: &Endpoint<'_>) -> u64 {
        let Ok(size) = size(kernel, sink) else {
            return 0;
        };
        let end = size.clamp(self.tail.start, self.tail.end);
        let missing = self.tail.end - end;
        self.tail.end = end;
        self.bytes -= missing;
        missing
    }
}

/// Reserves the sink's next `len` bytes. `None` if they reach beyond the largest offset there is, or bytes that were reserved
/// before have to be written first.
fn reserve<K: Kernel>(kernel: &K, sink: &mut Endpoint<'_>, len: u64) -> Option<Range<u64>> {
    let is_reserved = sink.reserve_in_place(kernel, len).ok()? == len;
    let start = sink.position().filter(|_| is_reserved)?;
    let end = start.checked_add(len)?;
    i64::try_from(end).ok().map(|_| start..end)
}

fn size<K: Kernel>(kernel: &K, sink: &Endpoint<'_>) -> Result<u64, CallError> {
    let status = kernel.fstat(sink.fd);
    let status = status.map_err(|errno| CallError::new("fstat", Side::Sink, errno))?;
    Ok(status.size)
}

fn punch<K: Kernel>(kernel: &K, sink: &Endpoint<'_>, range: &Range<u64>) -> Result<(), Errno> {
    retried(|| kernel.punch_hole(sink.fd, range.start, range.end - range.start))
}

/// Makes the sink reach to the end of a hole. The block that this takes is freed by punching the hole out again, where the
/// file system can; otherwise the hole is shorter by a block.
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

/// Writes a zero as the last byte of a hole.
fn write_last_byte<K: Kernel>(
    kernel: &K,
    sink: &Endpoint<'_>,
    reopened: &mut Reopened,
    hole: &Range<u64>,
) -> Result<(), CallError> {
    let last = hole.end - 1;
    let written = retried(|| {
        if sink.info.direct {
            reopened.write_at(kernel, sink, last, &[0])
        } else {
            kernel.write(sink.fd, Some(last), &[0], Blocking::MaySleep)
        }
    });
    match written {
        Ok(0) => Err(CallError {
            call: "pwrite",
            side: Side::Sink,
            cause: Cause::WriteZero,
        }),
        Ok(_) => Ok(()),
        Err(errno) => Err(CallError::new("pwrite", Side::Sink, errno)),
    }
}

/// Whether zeros need not be written to find out that they cannot be: there is no room for the file's new length, or it
/// is forbidden.
fn is_final(error: &CallError) -> bool {
    let errno = error.cause.errno();
    errno.is_some_and(|errno| matches!(errno, Errno::FBIG | Errno::NOSPC | Errno::DQUOT))
}
