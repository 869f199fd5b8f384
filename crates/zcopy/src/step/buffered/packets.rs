//! Reads from pipes in packet mode without losing the rest of a packet.
//!
//! A read takes one packet, or a stream up to the end of the packet behind it, and the kernel
//! discards the bytes of the packet that do not fit into the room. A splice takes a part of a
//! packet and leaves the rest; both parts are packets. No flag of the reader shows whether a pipe
//! holds packets: `pipe2(O_DIRECT)` sets it on the writer alone, which may also set it later. Every
//! pipe may therefore hold packets.
//!
//! A read with as much room as the pipe can hold divides no packet. Any other read is preceded by a
//! splice into the private pipe, and has room for all that the private pipe then holds. If there is
//! no private pipe, the read has as much room as the source can hold, and exceeds the step, the rate
//! and the buffer, but not the limit. If the kernel refuses the splice, the transfer reads as every
//! program does.
//!
//! If a limit, a rate, a step or a sink that takes little without sleeping makes the read short, the
//! private pipe is there for the sake of packets: it may be small, and is opened with the last
//! descriptors of the process. A read that only the size of the buffer bounds needs none, and takes
//! one only if it saves time.

use crate::buffer::FIRST_CAPACITY;
use crate::call_error::{CallError, Cause};
use crate::copy_state::{CopyState, StepBudget};
use crate::fd_info::Kind;
use crate::pipe::{self, LARGEST_PACKET, Pipe};
use crate::side::Side;
use crate::step::buffered::{longest_write, on_errno};
use crate::step::{Step, splice_pipe};
use crate::sys::{Errno, Kernel};

const LARGEST: u64 = LARGEST_PACKET as u64;

/// The result of [`before_read`].
pub(super) enum BeforeRead {
    /// The read follows, with room for at least this many bytes.
    Read { least: usize },
    /// Nothing arrived, and no read follows.
    Done(Step),
}

/// Splices from a source pipe into the private pipe, if a read would have less room than the source
/// can hold.
///
/// # Errors
///
/// `ENOMEM`, if there is no memory for any byte. Nothing has left the source.
pub(super) fn before_read<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<BeforeRead, CallError> {
    let least = state.source.info.least_read();
    if state.source.info.kind != Kind::Pipe || state.in_pipe() > 0 {
        return Ok(BeforeRead::Read { least });
    }
    let pending = state.buffer.pending().len() as u64;
    let until_limit = budget.until_limit.saturating_sub(pending);
    // A read may exceed the rate, but not the limit: the bytes beyond it may belong to the next
    // reader.
    let within_limit = |room: u64| {
        let least = room.min(until_limit) as usize;
        Ok(BeforeRead::Read { least })
    };
    if state.cannot_splice_source {
        return within_limit(LARGEST);
    }
    let allowed = budget.max.min(until_limit);
    let longest = longest_write(Kind::Pipe, state.sink.info.kind).min(state.buffer.max_capacity());
    let mut max = allowed.min((longest as u64).saturating_sub(pending).max(LARGEST));
    let capacity = source_capacity(kernel, state) as u64;
    if max >= capacity {
        return within_limit(capacity);
    }
    let is_needed = allowed < capacity;
    let opened = match state.pipe.take_if(|pipe| is_needed || pipe.is_worth_having) {
        Some(pipe) => Ok(pipe),
        None if !is_needed && state.gave_up_faster_reads => Err(Errno::NOBUFS),
        // At the end, to open a private pipe would cost more than all other calls of a short
        // transfer.
        None if state.source.has_hung_up(kernel) => return Ok(BeforeRead::Done(Step::Eof)),
        None if is_needed => Pipe::open_of_any_size(kernel, state.private_pipe_size),
        None => Pipe::open(kernel, state.private_pipe_size),
    };
    let pipe = match opened {
        Ok(pipe) => pipe,
        Err(Errno::INTR) => return Ok(BeforeRead::Done(Step::Repeat)),
        // A filter of system calls refuses every pipe.
        Err(Errno::NOSYS | Errno::PERM | Errno::ACCESS) => {
            state.cannot_splice_source = true;
            return within_limit(LARGEST);
        }
        Err(_) => {
            state.gave_up_faster_reads |= !is_needed;
            return within_limit(capacity);
        }
    };
    // Bytes that have left the source must find memory.
    if let Err(errno) = reserve_for_pipe(state, max.min(pipe.capacity as u64) as usize) {
        max = max.min(state.buffer.room() as u64);
        if max == 0 {
            state.pipe = Some(pipe);
            return Err(CallError::no_memory(errno));
        }
    }
    match splice_pipe::fill_pipe(kernel, state, &StepBudget { max, ..*budget }, pipe) {
        Ok(Step::Filled) => Ok(BeforeRead::Read { least }),
        // Without splice, a read has to take the bytes, and loses the rest of a packet as every
        // program does.
        Ok(Step::Unsupported(_)) | Err(_) => {
            state.cannot_splice_source = true;
            state.pipe = None;
            within_limit(LARGEST)
        }
        Ok(step) => Ok(BeforeRead::Done(step)),
    }
}

/// Asks for the capacity of the source pipe in bytes. Another process may have enlarged it since the
/// last read.
fn source_capacity<K: Kernel>(kernel: &K, state: &mut CopyState<'_>) -> usize {
    let capacity = kernel.pipe_capacity(state.source.fd);
    let capacity = capacity.unwrap_or(pipe::DEFAULT_CAPACITY);
    state.source_capacity = Some(capacity);
    capacity
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
    let in_pipe = state.in_pipe();
    if in_pipe == 0 {
        return Ok(None);
    }
    let mut len = in_pipe.min(max) as usize;
    let reserved = reserve_for_pipe(state, len);
    // Packets come from pipes alone.
    if state.source.info.kind != Kind::Pipe {
        len = len.min(state.buffer.room());
    }
    if let Err(errno) = reserved
        && (len == 0 || state.buffer.room() < len)
    {
        return Err(CallError::no_memory(errno));
    }
    let Some(pipe) = &mut state.pipe else {
        return Ok(None);
    };
    state.calls += 1;
    let room = state.buffer.spare(len);
    let step = match kernel.read_into(pipe.reader(), None, room) {
        Ok(0) => Err(CallError::new("read", Side::Neither, Cause::ReturnedZero)),
        Ok(n) => {
            pipe.in_flight -= n as u64;
            state.buffer.fill(n);
            Ok(Step::Filled)
        }
        Err(errno) => on_errno("read", Side::Neither, errno),
    };
    step.map(Some)
}

/// Allocates memory for `len` bytes out of the private pipe, behind the pending ones: at most as much
/// as the buffer may have, but for the packets of a pipe.
///
/// # Errors
///
/// `ENOMEM`. There may be room for fewer bytes.
pub(crate) fn reserve_for_pipe(state: &mut CopyState<'_>, len: usize) -> Result<(), Errno> {
    let alignment = state.sink_alignment();
    let len = state.buffer.pending().len() + len;
    if state.source.info.kind == Kind::Pipe && len > state.buffer.max_capacity() {
        state.buffer.reserve_exactly(len, alignment)
    } else {
        state.buffer.reserve(len, alignment)
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
