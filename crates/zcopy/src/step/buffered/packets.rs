//! Reads from pipes in packet mode without losing the rest of a packet.
//!
//! A read takes one packet, and the kernel discards the bytes that do not fit into the room. A
//! splice takes a part of a packet and leaves the rest; both parts are packets. No flag of the
//! reader shows whether a pipe holds packets: `pipe2(O_DIRECT)` sets it on the writer alone, which
//! may also set it later. Every pipe may therefore hold packets.

use crate::buffer::{FIRST_CAPACITY, SAFE_DATAGRAM};
use crate::call_error::CallError;
use crate::copy_state::{CopyState, StepBudget};
use crate::fd_info::Kind;
use crate::pipe::{LARGEST_PACKET, Pipe};
use crate::step::{Step, splice_pipe};
use crate::sys::{Errno, Kernel};

const LARGEST: u64 = LARGEST_PACKET as u64;

/// Splices from a source pipe into the private pipe, if fewer bytes are wanted than a packet may
/// hold. Returns `None` if the read can follow, and the result of the step if nothing arrived.
pub(super) fn splice_part<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Option<Step>, CallError> {
    let pending = state.buffer.pending().len() as u64;
    let max = budget.max.min(budget.remaining.saturating_sub(pending));
    let max = match state.sink.info.kind {
        Kind::Datagram => max.min(SAFE_DATAGRAM as u64),
        _ => max,
    };
    let may_divide_packet = state.source.info.kind == Kind::Pipe
        && state.in_pipe() == 0
        && !state.cannot_splice_packets
        // The first comparison saves the call that asks for the page size on some machines.
        && max < LARGEST
        && max < kernel.page_size();
    if !may_divide_packet {
        return Ok(None);
    }
    let open = || Pipe::open_of_any_size(kernel, state.pipe_size);
    let pipe = match state.pipe.take().map_or_else(open, Ok) {
        Ok(pipe) => pipe,
        Err(Errno::INTR) => return Ok(Some(Step::Repeat)),
        Err(_) => {
            state.cannot_splice_packets = true;
            return Ok(None);
        }
    };
    match splice_pipe::fill_pipe(kernel, state, &StepBudget { max, ..*budget }, pipe)? {
        // Without splice, a read has to take the bytes, and loses the rest of a packet as every
        // program does.
        Step::Unsupported(_) => {
            state.cannot_splice_packets = true;
            Ok(None)
        }
        Step::Filled => Ok(None),
        step => Ok(Some(step)),
    }
}

/// Returns the least number of bytes that the next read must have room for.
pub(super) fn least_read(state: &CopyState<'_>, budget: &StepBudget) -> usize {
    match state.in_pipe() {
        // Without splice, a read may exceed the rate, but not the limit.
        0 if state.cannot_splice_packets => {
            let pending = state.buffer.pending().len() as u64;
            LARGEST.min(budget.remaining.saturating_sub(pending)) as usize
        }
        0 => state.source.info.least_read(),
        in_pipe => in_pipe.min(budget.max).min(LARGEST) as usize,
    }
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
