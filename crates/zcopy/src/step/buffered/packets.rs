//! Reads from pipes in packet mode without losing the rest of a packet.
//!
//! A read takes one packet, or a stream up to the end of the packet behind it, and the kernel
//! discards the bytes of the packet that do not fit into the room. A splice takes a part of a
//! packet and leaves the rest; both parts are packets. No flag of the reader shows whether a pipe
//! holds packets: `pipe2(O_DIRECT)` sets it on the writer alone, which may also set it later. Every
//! pipe may therefore hold packets.
//!
//! A read with as much room as the pipe can hold divides no packet. Any other read is preceded by a
//! splice into the private pipe, and has room for all that the private pipe then holds. If no
//! descriptor is free for the private pipe, each read has as much room as the source can hold, and
//! exceeds the step and the rate, but not the limit. If the kernel refuses the splice, the transfer
//! reads as every program does. It also does so if the user's budget grants a private pipe that holds
//! less than the read and less than 64 KiB, unless the read is shorter than a packet.

use crate::buffer::{Alignment, FIRST_CAPACITY, SAFE_DATAGRAM};
use crate::call_error::{CallError, Cause};
use crate::copy_state::{CopyState, StepBudget};
use crate::fd_info::Kind;
use crate::pipe::{self, LARGEST_PACKET, Pipe};
use crate::side::Side;
use crate::step::buffered::on_errno;
use crate::step::{Step, splice_pipe};
use crate::sys::{Errno, Kernel};

const LARGEST: u64 = LARGEST_PACKET as u64;

/// Splices from a source pipe into the private pipe, if a read would have less room than the pipe
/// can hold. Returns `None` if the read can follow, and the result of the step if nothing arrived.
pub(super) fn splice_before_read<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Option<Step> {
    let pending = state.buffer.pending().len() as u64;
    let room = (state.buffer.max_capacity() as u64).min(budget.until_limit);
    let max = budget.max.min(room.saturating_sub(pending));
    let max = match state.sink.info.kind {
        Kind::Datagram => max.min(SAFE_DATAGRAM as u64),
        _ => max,
    };
    let may_divide_packet = state.source.info.kind == Kind::Pipe
        && state.in_pipe() == 0
        && !state.cannot_splice_source
        && max < source_capacity(kernel, state) as u64;
    if !may_divide_packet {
        return None;
    }
    // At the end, to open a private pipe would cost more than all other calls of a short transfer.
    if state.pipe.is_none() && state.source.has_hung_up(kernel) {
        return Some(Step::Eof);
    }
    let open = || Pipe::open_of_any_size(kernel, state.private_pipe_size);
    let pipe = match state.pipe.take().map_or_else(open, Ok) {
        Ok(pipe) => pipe,
        Err(Errno::INTR) => return Some(Step::Repeat),
        Err(_) => {
            (state.cannot_splice_source, state.lacks_private_pipe) = (true, true);
            return None;
        }
    };
    if max >= LARGEST && (pipe.capacity as u64) < max.min(pipe::DEFAULT_CAPACITY as u64) {
        // The user's budget left a page or two, through which the bytes would take far longer.
        state.pipe = Some(pipe);
        return None;
    }
    match splice_pipe::fill_pipe(kernel, state, &StepBudget { max, ..*budget }, pipe) {
        Ok(Step::Filled) => None,
        // Without splice, a read has to take the bytes, and loses the rest of a packet as every
        // program does.
        Ok(Step::Unsupported(_)) | Err(_) => {
            state.cannot_splice_source = true;
            None
        }
        Ok(step) => Some(step),
    }
}

/// Returns the capacity of the source pipe in bytes. The first call asks the kernel.
fn source_capacity<K: Kernel>(kernel: &K, state: &mut CopyState<'_>) -> usize {
    *state.source_capacity.get_or_insert_with(|| {
        let capacity = kernel.pipe_capacity(state.source.fd);
        capacity.unwrap_or(pipe::DEFAULT_CAPACITY)
    })
}

/// Returns the least number of bytes that the next read of the source must have room for.
pub(super) fn least_room<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> usize {
    let least = if state.lacks_private_pipe {
        source_capacity(kernel, state) as u64
    } else if state.cannot_splice_source {
        LARGEST
    } else {
        return state.source.info.least_read();
    };
    // A read may exceed the rate, but not the limit: the bytes beyond it may belong to the next
    // reader.
    let pending = state.buffer.pending().len() as u64;
    least.min(budget.until_limit.saturating_sub(pending)) as usize
}

/// Reads up to `max` bytes from the private pipe, behind the pending bytes. Returns `None` if the
/// pipe is empty.
///
/// A `max` that is less than the pipe holds must lie between two packets, because a read loses the
/// rest of a packet. The length of a short tee(2) lies there.
pub(crate) fn read_private_pipe<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    max: u64,
) -> Result<Option<Step>, CallError> {
    let Some(pipe) = state.pipe.as_mut().filter(|pipe| pipe.in_flight > 0) else {
        return Ok(None);
    };
    let buffer = &mut state.buffer;
    let pending = buffer.pending().len();
    let alignment = if state.sink.info.direct {
        Alignment::Page
    } else {
        Alignment::CacheLine
    };
    let mut len = pipe.in_flight.min(max) as usize;
    buffer.reserve(pending + len, alignment);
    match state.source.info.kind {
        Kind::Pipe => buffer.reserve_exactly(pending + len, alignment),
        // No packets come from other sources.
        _ => len = len.min(buffer.max_capacity() - pending),
    }
    state.calls += 1;
    let room = buffer.spare(len);
    let step = match kernel.read_into(pipe.reader(), None, room) {
        Ok(0) => Err(CallError::new("read", Side::Neither, Cause::ReturnedZero)),
        Ok(n) => {
            pipe.in_flight -= n as u64;
            buffer.fill(n);
            Ok(Step::Filled)
        }
        Err(errno) => on_errno("read", Side::Neither, errno),
    };
    step.map(Some)
}

/// Returns how many bytes the buffer must have room for behind the pending ones, so that a packet
/// fits.
pub(super) fn packet_room<K: Kernel>(kernel: &K, state: &CopyState<'_>) -> u64 {
    // Where pages are small, every buffer has room for a packet.
    if LARGEST > FIRST_CAPACITY as u64 && state.source.info.kind == Kind::Pipe {
        kernel.page_size()
    } else {
        0
    }
}
