//! Pipes in packet mode: no read of theirs loses the rest of a packet.
//!
//! A read takes one packet, and what it has no room for is thrown away. A splice takes a part of one and leaves the
//! rest, and both are packets still. No flag of the reader says whether a pipe holds packets: `pipe2(O_DIRECT)` sets it for the
//! writer alone, who may set it later too. So any pipe may.

use crate::buffer::SMALL;
use crate::call_error::CallError;
use crate::copy_state::{CopyState, StepBudget};
use crate::fd_info::Kind;
use crate::pipe::{LARGEST_PACKET, Pipe};
use crate::step::{Step, splice_pipe};
use crate::sys::{Errno, Kernel};

const LARGEST: u64 = LARGEST_PACKET as u64;

/// Splices what is wanted of a pipe into the private pipe, if that is less than a packet may hold. An answer means that
/// nothing came.
pub(super) fn splice_part<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Option<Step>, CallError> {
    let pending = state.buffer.pending().len() as u64;
    let max = budget.max.min(budget.remaining.saturating_sub(pending));
    let max = match state.sink.info.kind {
        // Nor is more read at once than fits a datagram.
        Kind::Datagram => max.min(SMALL as u64),
        _ => max,
    };
    let is_asked_for = state.source.info.kind == Kind::Pipe
        && state.in_pipe() == 0
        && !state.refuses_part
        // To ask for the size of a page may take a call.
        && max < LARGEST
        && max < kernel.page_size();
    if !is_asked_for {
        return Ok(None);
    }
    let pipe = match state.pipe.take() {
        Some(pipe) => Ok(pipe),
        // A page is enough.
        None => Pipe::open_of_any_size(kernel, state.pipe_size),
    };
    let pipe = match pipe {
        Ok(pipe) => pipe,
        Err(Errno::INTR) => return Ok(Some(Step::Interrupted)),
        Err(_) => {
            state.refuses_part = true;
            return Ok(None);
        }
    };
    match splice_pipe::fill_pipe(kernel, state, &StepBudget { max, ..*budget }, pipe)? {
        // Without a splice a read takes what is wanted, as anybody's would.
        Some(Step::Unsupported(_)) => {
            state.refuses_part = true;
            Ok(None)
        }
        answer => Ok(answer),
    }
}

/// The room that the next read must offer at least, in bytes, whatever is asked of it.
pub(super) fn least_read(state: &CopyState<'_>, budget: &StepBudget) -> usize {
    match state.in_pipe() {
        // Without a splice a rate is overdrawn, and a limit is not.
        0 if state.refuses_part => {
            let pending = state.buffer.pending().len() as u64;
            LARGEST.min(budget.remaining.saturating_sub(pending)) as usize
        }
        0 => state.source.info.least_read(),
        in_pipe => in_pipe.min(budget.max).min(LARGEST) as usize,
    }
}

/// The room that the buffer must have for a packet behind what is pending, in bytes.
pub(super) fn room<K: Kernel>(kernel: &K, state: &CopyState<'_>) -> u64 {
    // The smallest buffer has it where pages are small.
    if LARGEST > SMALL as u64 && state.source.info.kind == Kind::Pipe {
        kernel.page_size()
    } else {
        0
    }
}
