//! How read and write get past a bad block of the source.

use crate::bad_blocks::{Next, Probed};
use crate::buffer::ALIGNMENT;
use crate::call_error::CallError;
use crate::copy_state::{CopyState, StepBudget};
use crate::endpoint::Endpoint;
use crate::fd_info::Kind;
use crate::side::Side;
use crate::step::Step;
use crate::sys::{Blocking, Errno, Kernel, Result as Called, SeekFrom};

/// What was done instead of a read.
pub(super) enum Ahead {
    /// Nothing: at most so many bytes are to be read.
    Read(usize),
    /// The buffer has been filled with zeros.
    Filled,
    /// It was found out how far the bad block reaches, or a signal came.
    Again,
}

/// Does what has to be done before the next read, of at most `len` bytes.
pub(super) fn ahead<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    len: usize,
) -> Result<Ahead, CallError> {
    match state.bad.next() {
        Next::Read(u64::MAX) => Ok(Ahead::Read(len)),
        Next::Read(bound) => {
            let position = place(kernel, &state.source).map_err(cannot_seek)?;
            let piece = state.bad.piece(position, bound);
            Ok(Ahead::Read((len as u64).min(piece).max(1) as usize))
        }
        Next::Zeros(zeros) => {
            let source = &mut state.source;
            let n = zeros.min(len as u64);
            let reserved = source.reserve_to_read(kernel, n).map_err(cannot_seek)?;
            let is_moved = source.position() != Some(state.bad.zeros_at());
            if source.goes_by_cursor() && is_moved && reserved > 0 {
                // What is reserved now is read instead.
                state.bad.forget();
                return Ok(Ahead::Again);
            }
            let room = state.buffer.spare_mut(n as usize);
            room.fill(0);
            let n = room.len();
            source.skip(kernel, n as u64).map_err(cannot_seek)?;
            state.buffer.fill(n);
            state.bad.filled(n as u64);
            Ok(Ahead::Filled)
        }
        Next::Probe(position) => probe(kernel, state, position).map(|()| Ahead::Again),
    }
}

/// Finds out whether a piece can be read at a position, and leaves the cursor alone.
fn probe<K: Kernel>(kernel: &K, state: &mut CopyState<'_>, position: u64) -> Result<(), CallError> {
    let granularity = granularity(kernel, state);
    let room = state.buffer.spare_mut(granularity as usize);
    state.calls += 1;
    let source = &state.source;
    let read = if source.info.direct {
        kernel.read(source.fd, Some(position), room, Blocking::MaySleep)
    } else {
        state
            .source_reopened
            .look_at_pages(kernel, source, position, room)
    };
    let found = match read {
        Err(Errno::INVAL) if source.info.direct && granularity < ALIGNMENT as u64 => {
            state.bad.double_granularity();
            return Ok(());
        }
        // What waits in the buffer ends at an odd place.
        Err(Errno::INVAL) if source.info.direct => {
            state.source_reopened.look(kernel, source, position, room)
        }
        found => found,
    };
    let found = match found {
        Ok(_) => Probed::Good,
        Err(Errno::INTR) => return Ok(()),
        Err(errno) if state.bad.skips(errno) => Probed::Bad,
        Err(errno) => return Err(CallError::new("read", Side::Source, errno)),
    };
    state.bad.waiting = state.in_flight();
    state.bad.probed(position, found);
    Ok(())
}

/// What a read of `len` bytes that failed means: that it is to be made again, or that the source has
/// ended, as it has no bad block behind its last byte.
///
/// # Errors
///
/// Any errno that does not speak of one place, or speaks of one in a source that has no positions or
/// does not say where it ends.
///
/// # Kernel notes
///
/// Of a source opened with `O_DIRECT` it is not known how small a piece may be; a disk says `EINVAL` to
/// one that is smaller than its blocks.
///
/// Kernels before 5.10 look into the last page of a file before they look at its size: if that page is
/// bad, what ends the file is not a read of 0 but the error.
pub(super) fn failed<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    len: usize,
    errno: Errno,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    let error = CallError::new("read", Side::Source, errno);
    if errno == Errno::INVAL && may_be_too_small(state, len) {
        state.bad.double_granularity();
        return Ok(Step::Interrupted);
    }
    let source = &state.source;
    if !state.bad.skips(errno) || !source.info.is_seekable() {
        return Err(error);
    }
    let (Ok(position), Some(size)) = (place(kernel, source), size(kernel, source)) else {
        return Err(error);
    };
    if position >= size {
        let is_end = position == size;
        return if is_end { Ok(Step::Eof) } else { Err(error) };
    }
    granularity(kernel, state);
    let waiting = state.in_flight();
    let end = size.min(position.saturating_add(budget.remaining - waiting));
    state.bad.waiting = waiting;
    state.bad.could_not_read(position, len as u64, end, errno);
    Ok(Step::Interrupted)
}

/// Whether a careful read of `len` bytes from a source opened with `O_DIRECT` may be smaller than what its disk
/// reads.
pub(super) fn may_be_too_small(state: &CopyState<'_>, len: usize) -> bool {
    let is_careful = matches!(state.bad.next(), Next::Read(bound) if bound < ALIGNMENT as u64);
    is_careful && state.source.info.direct && len < ALIGNMENT
}

/// Whether what is read next is a single piece, of which the page cache is to hold nothing else.
pub(super) fn is_single(state: &CopyState<'_>, len: usize) -> bool {
    !state.source.info.direct && state.bad.is_single(len as u64)
}

/// Where the next byte is.
fn place<K: Kernel>(kernel: &K, source: &Endpoint<'_>) -> Called<u64> {
    match source.at() {
        (_, Some(offset)) => Ok(offset),
        (fd, None) => kernel.seek(fd, SeekFrom::Current(0)),
    }
}

/// Where the source ends, if that can be known. A file that claims to be empty is none that ends there.
fn size<K: Kernel>(kernel: &K, source: &Endpoint<'_>) -> Option<u64> {
    let size = match source.info.kind {
        Kind::Block => kernel.device_size(source.fd),
        _ => kernel.fstat(source.fd).map(|status| status.size),
    };
    size.ok().filter(|size| *size > 0)
}

/// The smallest piece worth reading, in bytes. A sink opened with `O_DIRECT` takes no smaller one than a
/// block.
fn granularity<K: Kernel>(kernel: &K, state: &mut CopyState<'_>) -> u64 {
    let (source, sink) = (&state.source, &state.sink.info);
    state.bad.granularity_or(|| {
        let granularity = source.info.granularity(kernel, source.fd);
        if sink.direct {
            granularity.max(ALIGNMENT as u64)
        } else {
            granularity
        }
    })
}

fn cannot_seek(errno: Errno) -> CallError {
    CallError::new("lseek", Side::Source, errno)
}
