//! `read(2)` and `write(2)` through one buffer. This strategy serves every pair, and its errors are
//! final.
//!
//! A step reads once if no bytes are ready to be written, and writes once. If calls may not sleep
//! and the sink can block, the step ends after the read, and the next one writes. Bytes that the
//! sink does not accept stay in the buffer for the next step.
//!
//! - **Bytes in the private pipe**, which another strategy left there, are read before any bytes of
//!   the source.
//! - **A message** of a datagram or seqpacket socket is read whole and written whole. The caller's
//!   bytes in front of it are a stream.
//! - **A device that loses or refuses the rest after a short read** (an event descriptor,
//!   `/dev/kmsg`) is read with [room for a whole message](crate::fd_info::FdInfo::least_read).
//!   Bytes beyond the limit stay in the buffer, for the caller.
//! - **A pipe** may hold packets. If a read would have less room than the pipe's capacity, a splice
//!   into the private pipe precedes it ([`packets`]). Without a private pipe, the read has room for
//!   the whole capacity.
//! - **A source with `O_DIRECT`** is read in whole blocks. Bytes of the last block that lie beyond
//!   the limit stay in the buffer, and at the end the source is rewound over them.
//! - **For a sink with `O_DIRECT`** whole blocks are gathered. A part of a block waits in the
//!   buffer for more bytes or for the end.
//!
//! | errno | meaning | next |
//! |---|---|---|
//! | `EAGAIN` | this side is not ready | waits |
//! | `EINTR` | a signal arrived | repeated |
//! | `EMSGSIZE` | a message longer than the buffer (256 KiB); it stays in the source | fails |
//! | errnos of a bad block, if the caller skips these | see [`skip`] | repeated past the block |
//! | `EINVAL` from a file with `O_DIRECT` | no whole blocks | tried at once on the reopened file |
//! | `EOPNOTSUPP`, `ENOSYS`, `EPERM` with `RWF_NOWAIT` | refused | tried at once without |
//! | any other | an error of this side | fails |
//! | a read returns 0 | the end of the source | the transfer ends |
//! | a write returns 0 | the sink accepts nothing | fails |
//!
//! # Kernel notes
//!
//! - A read that returns 0 is the end of every kind of source. An empty datagram looks like one.
//! - A read from `/proc` or a terminal is short long before the end.
//!
//! Manuals: [read(2)](https://man7.org/linux/man-pages/man2/read.2.html),
//! [write(2)](https://man7.org/linux/man-pages/man2/write.2.html). Buffer size: GNU coreutils,
//! [ioblksize.h](https://git.savannah.gnu.org/cgit/coreutils.git/tree/src/ioblksize.h).

use crate::buffer::{self, Alignment, FIRST_CAPACITY};
use crate::call_error::CallError;
use crate::copy_state::{CopyState, StepBudget};
use crate::fd_info::Kind;
use crate::pipe;
use crate::records::{Admission, Framing};
use crate::side::Side;
use crate::sparse::{self, Run};
use crate::step::{Step, block_batch};
use crate::sys::{Blocking, Errno, Kernel};
use packets::BeforeRead;
use skip::Prepared;

mod calls;
mod packets;
mod skip;

pub(crate) use calls::{on_errno, read_once, write_once};
pub(crate) use packets::{read_private_pipe, reserve_for_pipe};

/// The size of a page on most machines, in bytes. Each slot of a pipe that is written to holds one.
const PAGE_SIZE: usize = 4 << 10;

/// Reads once if nothing is ready to be written, and writes once. Never returns
/// [`Step::Unsupported`].
pub(super) fn step<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    step_by(kernel, state, budget, fill, drain)
}

/// Takes a step that reads by `fill` and writes by `drain`, as [`fill`] and [`drain`] do.
pub(crate) fn step_by<'a, K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'a>,
    budget: &StepBudget,
    fill: impl FnOnce(&K, &mut CopyState<'a>, &StepBudget) -> Result<Step, CallError>,
    drain: impl FnOnce(&K, &mut CopyState<'a>, usize, Blocking) -> Result<Step, CallError>,
) -> Result<Step, CallError> {
    let mut ready = block_batch::ready(kernel, state, budget)?;
    if ready == 0 {
        let is_empty = state.buffer.is_empty();
        match &mut state.batch {
            Some(batch) if batch.has_ended => return Ok(Step::Eof),
            // The next read is a step of its own, because the engine may have to poll the source
            // first.
            Some(batch) if !batch.is_short && !is_empty => {
                batch.is_short = true;
                return Ok(Step::Filled);
            }
            _ => {}
        }
        match (fill(kernel, state, budget)?, &mut state.batch) {
            (Step::Filled, _) => {}
            // The part of a block is written now.
            (Step::Eof, Some(batch)) if !state.buffer.is_empty() => batch.has_ended = true,
            (step, _) => return Ok(step),
        }
        if budget.ends_after_fill(state) {
            return Ok(Step::Filled);
        }
        ready = block_batch::ready(kernel, state, budget)?;
    }
    if let Some(batch) = &mut state.batch {
        batch.is_short = ready == 0;
        if ready == 0 {
            return Ok(Step::Filled);
        }
        state.buffer.compact();
    }
    drain(kernel, state, ready, budget.blocking)
}

/// Reads once into the buffer, behind the pending bytes.
///
/// Returns [`Step::Filled`] if bytes arrived. On [`Step::MessageTooLong`] the next message is
/// longer than the limit allows: it is still in the source, or, if another reader took the message
/// that was peeked at, in the buffer.
pub(crate) fn fill<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    let least = match packets::before_read(kernel, state, budget)? {
        BeforeRead::Read { least } => least,
        BeforeRead::Done(step) => return Ok(step),
    };
    // Earlier budgets allowed all bytes of the private pipe to leave the source.
    if let Some(step) = read_private_pipe(kernel, state, u64::MAX)? {
        return Ok(step);
    }
    if state.source.info.kind == Kind::Datagram {
        match kernel.next_datagram(state.source.fd, budget.blocking) {
            Ok(len) if len > state.buffer.max_capacity() => {
                return Err(CallError::new("recv", Side::Source, Errno::MSGSIZE));
            }
            Ok(len) if len as u64 > budget.until_limit => return Ok(Step::MessageTooLong),
            Ok(_) => {
                let reserved = state.buffer.reserve(usize::MAX, Alignment::CacheLine);
                reserved.map_err(CallError::no_memory)?;
            }
            Err(errno) => return on_errno("recv", Side::Source, errno),
        }
    } else {
        reserve_room(kernel, state, budget, least)?;
    }
    let len = len_to_read(state, budget, least);
    let len = match skip::prepare_read(kernel, state, len)? {
        Prepared::Read(len) => len,
        Prepared::Filled => return Ok(Step::Filled),
        Prepared::Again => return Ok(Step::Repeat),
    };
    state.calls += 1;
    let is_small = skip::may_be_too_small(state, len);
    let is_single = skip::is_single(state, len);
    let room = state.buffer.spare(len);
    let (source, reopened) = (&mut state.source, &mut state.source_reopened);
    let read = if is_single {
        reopened.read_pages(kernel, source, room.into_slice())
    } else {
        // A read that is shorter than a block of the disk is repeated with a larger piece, not on
        // the reopened file.
        let reopened = (!is_small).then_some(reopened);
        calls::read(kernel, source, reopened, room, budget.blocking)
    };
    match read {
        Ok(0) => calls::end_of_file(kernel, &mut state.source),
        Ok(n) => {
            state.source.advance(n as u64);
            state.buffer.fill(n);
            state.bad.could_read();
            let is_message = state.source.info.kind == Kind::Datagram;
            if is_message && n as u64 > budget.until_limit {
                // Another reader took the message that was peeked at, and this one is longer.
                return Ok(Step::MessageTooLong);
            }
            Ok(Step::Filled)
        }
        Err(errno @ (Errno::INTR | Errno::AGAIN)) => on_errno("read", Side::Source, errno),
        Err(errno) => skip::failed(kernel, state, len, errno, budget),
    }
}

/// Returns memory for one read from a reader of the caller's, behind the pending bytes: at least
/// one byte, because the step writes from a full buffer before it reads.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn room_for_reader<'s, K: Kernel>(
    kernel: &K,
    state: &'s mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<&'s mut [u8], CallError> {
    reserve_room(kernel, state, budget, 0)?;
    let len = len_to_read(state, budget, 0);
    Ok(state.buffer.spare_mut(len))
}

/// Allocates memory for the next read, for at least `least` bytes behind the pending ones.
///
/// # Errors
///
/// `ENOMEM`, if there is no room for `least` bytes either, or for none.
fn reserve_room<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
    least: usize,
) -> Result<(), CallError> {
    let source = &state.source.info;
    let expected = match source.size {
        _ if state.buffer.was_filled() => u64::MAX,
        // One page more than a full pipe holds: a full pipe then does not fill the buffer, and a
        // read that does ends between two pages, so that it divides no record that a page holds.
        None if source.kind == Kind::Pipe => {
            let capacity = state.source_capacity.unwrap_or(pipe::DEFAULT_CAPACITY);
            (capacity + PAGE_SIZE) as u64
        }
        // One byte more than the file, so that its end does not look like a full buffer.
        Some(size) => size.saturating_add(1),
        None => FIRST_CAPACITY as u64,
    };
    let len = budget.max.min(expected).max(least as u64);
    let len = len.max(packets::packet_room(kernel, state));
    let len = len.saturating_add(state.buffer.pending().len() as u64);
    let (len, alignment) = if source.direct || state.sink.info.direct {
        (whole_blocks(len, state), Alignment::Page)
    } else {
        (len, Alignment::CacheLine)
    };
    // Room for all that the source can hold may be more than the buffer otherwise has.
    let at_least = state.buffer.pending().len() + least;
    let reserved = if at_least > state.buffer.max_capacity() {
        state.buffer.reserve_exactly(at_least, alignment)
    } else {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        state.buffer.reserve(len, alignment)
    };
    match reserved {
        Err(errno) if state.buffer.room() < least.max(1) => Err(CallError::no_memory(errno)),
        _ => Ok(()),
    }
}

/// Returns how many bytes to read, at least `least`.
fn len_to_read(state: &CopyState<'_>, budget: &StepBudget, least: usize) -> usize {
    let pending = state.buffer.pending().len() as u64;
    let len = match (state.source.info.kind, state.sink.info.kind) {
        (Kind::Datagram, _) => state.buffer.max_capacity(),
        (source, sink) => {
            let longest = longest_write(source, sink).min(state.buffer.max_capacity());
            budget.len(state, longest as u64)
        }
    };
    // The pending bytes count towards the limit too.
    let left = budget.until_limit.saturating_sub(pending);
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    let len = len.min(left).max(least);
    if state.source.info.direct && pending == 0 {
        state.source.clamp(whole_blocks(len as u64, state)) as usize
    } else {
        len
    }
}

/// Returns the longest write in bytes. A datagram is passed on whole, and a stream goes to a datagram
/// socket in messages that every address family takes.
pub(crate) fn longest_write(source: Kind, sink: Kind) -> usize {
    if sink == Kind::Datagram && source != Kind::Datagram {
        buffer::SAFE_DATAGRAM
    } else {
        usize::MAX
    }
}

/// Writes once from the first `ready` bytes of the buffer, or makes a hole instead of writing
/// zeros.
pub(crate) fn drain<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    ready: usize,
    blocking: Blocking,
) -> Result<Step, CallError> {
    let source = match state.source.info.kind {
        // The message is read when the prefix has gone.
        Kind::Datagram if state.prefix_left > 0 => Kind::Other,
        kind => kind,
    };
    let longest = longest_write(source, state.sink.info.kind);
    let pending = &state.buffer.pending()[..ready.min(longest)];
    let framing = match source {
        Kind::Datagram => Framing::Message,
        _ => Framing::Stream,
    };
    let pending = match state.records.admit(pending, framing) {
        Admission::Bytes(n) => &pending[..n],
        Admission::Later => return Ok(Step::Filled),
        Admission::Never => return Ok(Step::MessageTooLong),
    };
    let pending = match sparse::leading_run(pending, &state.holes, &state.sink) {
        Run::Zeros(n) => {
            let (sink, reopened) = (&mut state.sink, &mut state.sink_reopened);
            let hole = state.holes.make(kernel, sink, reopened, n as u64)?;
            if hole > 0 {
                state.prefix_left = state.prefix_left.saturating_sub(hole as usize);
                state.records.accepted(state.buffer.consume(hole as usize));
                // These zeros were read, so they count as moved and towards the rate. The inspector
                // sees them when more bytes follow, or at the end: a hole at the end of the file
                // may still fail.
                state.uninspected_zeros += hole;
                return Ok(Step::Moved(hole));
            }
            &state.buffer.pending()[..n]
        }
        Run::Data(n) => &state.buffer.pending()[..n],
    };
    state.calls += 1;
    let (sink, reopened) = (&mut state.sink, &mut state.sink_reopened);
    let step = write_once(kernel, sink, reopened, pending, blocking)?;
    if let Step::Moved(n) = step {
        state.inspect_zeros(u64::MAX);
        state.prefix_left = state.prefix_left.saturating_sub(n as usize);
        let bytes = state.buffer.consume(n as usize);
        state.records.accepted(bytes);
        if let Some(inspect) = &mut state.inspect {
            inspect(bytes);
        }
    }
    Ok(step)
}

/// Rounds a length up to whole blocks, within the buffer.
fn whole_blocks(len: u64, state: &CopyState<'_>) -> u64 {
    len.min(state.buffer.max_capacity() as u64)
        .next_multiple_of(buffer::ALIGNMENT as u64)
}
