//! Reads past the bad blocks of a source, if the caller skips them ([`crate::bad_blocks`] decides
//! where to read next).
//!
//! | errno | meaning | next |
//! |---|---|---|
//! | [of a block](crate::bad_blocks::is_of_a_block) | a bad block | reads less, or skips |
//! | `EINVAL` with `O_DIRECT` | the disk has larger blocks | reads twice as much |
//! | any other | an error of the whole source | fails |
//!
//! Every errno fails the transfer if the source has no positions or does not report its end.
//!
//! # Kernel notes
//!
//! - The smallest piece that a source with `O_DIRECT` accepts is not known. A disk returns `EINVAL`
//!   for a read that is smaller than its blocks.
//! - Kernels before 5.10 read the last page of a file before they compare the position with the
//!   size. If that page is bad, a read at the end of the file fails instead of returning 0.

use crate::bad_blocks::{Next, Probed};
use crate::buffer::ALIGNMENT;
use crate::call_error::CallError;
use crate::copy_state::{CopyState, StepBudget};
use crate::endpoint::Endpoint;
use crate::fd_info::Kind;
use crate::side::Side;
use crate::step::Step;
use crate::sys::{Blocking, Errno, Kernel};

/// How the step continues after [`prepare_read`].
pub(super) enum Prepared {
    /// Read at most this many bytes.
    Read(usize),
    /// Nothing: the buffer received zeros instead.
    Filled,
    /// Take the step again: a probe has measured the bad block, or a signal interrupted it.
    Again,
}

/// Prepares a read of at most `len` bytes: shortens it near a bad block, or fills the buffer with
/// zeros or probes the source instead.
pub(super) fn prepare_read<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    len: usize,
) -> Result<Prepared, CallError> {
    let lseek_error = CallError::of_call("lseek", Side::Source);
    match state.bad.next() {
        Next::Read(u64::MAX) => Ok(Prepared::Read(len)),
        Next::Read(bound) => {
            let position = state.source.current_position(kernel).map_err(lseek_error)?;
            let piece = state.bad.piece(position, bound);
            Ok(Prepared::Read((len as u64).min(piece).max(1) as usize))
        }
        Next::Zeros(zeros) => {
            let source = &mut state.source;
            let n = zeros.min(len as u64);
            let reserved = source.reserve_to_read(kernel, n).map_err(lseek_error)?;
            let is_moved = source.position() != Some(state.bad.zeros_at());
            if source.goes_by_cursor() && is_moved && reserved > 0 {
                // Another reader has passed the bad block. The reserved range is read instead.
                state.bad.forget();
                return Ok(Prepared::Again);
            }
            let room = state.buffer.spare_mut(n as usize);
            room.fill(0);
            let n = room.len();
            source.skip(kernel, n as u64).map_err(lseek_error)?;
            state.buffer.fill(n);
            state.bad.filled(n as u64);
            Ok(Prepared::Filled)
        }
        Next::Probe(position) => probe(kernel, state, position).map(|()| Prepared::Again),
    }
}

/// Probes whether a piece at a position can be read, and does not move the cursor.
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
            .read_pages_at(kernel, source, position, room)
    };
    let found = match read {
        Err(Errno::INVAL) if source.info.direct && granularity < ALIGNMENT as u64 => {
            state.bad.double_granularity();
            return Ok(());
        }
        // The pending bytes end within a block, so that the memory behind them is not aligned.
        Err(Errno::INVAL) if source.info.direct => state
            .source_reopened
            .read_at(kernel, source, position, room),
        found => found,
    };
    let found = match found {
        Ok(_) => Probed::Good,
        Err(Errno::INTR) => return Ok(()),
        Err(errno) if state.bad.skips(errno) => Probed::Bad,
        Err(errno) => return Err(CallError::new("read", Side::Source, errno)),
    };
    state.bad.waiting = state.in_flight_from_source();
    state.bad.probed(position, found);
    Ok(())
}

/// Decides what follows a failed read of `len` bytes: another read, or the end, because nothing
/// behind the last byte of a source is bad.
///
/// # Errors
///
/// An errno that does not concern a single block, or one from a source that has no positions or
/// does not report its end.
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
        return Ok(Step::Repeat);
    }
    let source = &state.source;
    if !state.bad.skips(errno) || !source.info.is_seekable() {
        return Err(error);
    }
    let (Ok(position), Some(size)) = (source.current_position(kernel), size(kernel, source)) else {
        return Err(error);
    };
    if position >= size {
        let is_end = position == size;
        return if is_end { Ok(Step::Eof) } else { Err(error) };
    }
    granularity(kernel, state);
    let waiting = state.in_flight();
    let end = size.min(position.saturating_add(budget.until_limit - waiting));
    state.bad.waiting = state.in_flight_from_source();
    state.bad.could_not_read(position, len as u64, end, errno);
    Ok(Step::Repeat)
}

/// Returns whether a read of `len` bytes near a bad block may be smaller than the blocks of the
/// disk. The source must be open with `O_DIRECT`.
pub(super) fn may_be_too_small(state: &CopyState<'_>, len: usize) -> bool {
    let is_careful = matches!(state.bad.next(), Next::Read(bound) if bound < ALIGNMENT as u64);
    is_careful && state.source.info.direct && len < ALIGNMENT
}

/// Returns whether the next read is one of a single piece, which must not bring other pages into
/// the page cache.
pub(super) fn is_single(state: &CopyState<'_>, len: usize) -> bool {
    !state.source.info.direct && state.bad.is_single(len as u64)
}

/// Returns the size of the source in bytes if it reports one. A file that claims to be empty may
/// have bytes.
fn size<K: Kernel>(kernel: &K, source: &Endpoint<'_>) -> Option<u64> {
    let size = match source.info.kind {
        Kind::Block => kernel.device_size(source.fd),
        _ => kernel.file_size(source.fd),
    };
    size.ok().filter(|size| *size > 0)
}

/// Returns the smallest piece worth reading, in bytes: at least a block if the sink is open with
/// `O_DIRECT`.
fn granularity<K: Kernel>(kernel: &K, state: &mut CopyState<'_>) -> u64 {
    let source = &state.source;
    let least = if state.sink.info.direct {
        ALIGNMENT as u64
    } else {
        1
    };
    let found = || source.info.granularity(kernel, source.fd).max(least);
    state.bad.granularity_or(found)
}
