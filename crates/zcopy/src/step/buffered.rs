//! `read(2)` and `write(2)` through one buffer: the route that serves every pair, and the judge of
//! every other.

use crate::buffer::{self, Alignment, SMALL};
use crate::call_error::{CallError, Cause};
use crate::copy_state::{CopyState, StepBudget};
use crate::fd_info::Kind;
use crate::pipe;
use crate::records::{Admission, Framing};
use crate::side::Side;
use crate::sparse::{self, Run};
use crate::step::{Step, block_batch};
use crate::sys::{Blocking, Errno, Kernel};
use skip::Ahead;

mod calls;
mod packets;
mod skip;

pub(crate) use calls::{draw, pour, stopped};

/// Reads once, if nothing is in flight, and writes once.
///
/// What another strategy left in the private pipe is read from there before anything more is read
/// from the source. What the sink did not take stays in the buffer for the next step. A message of
/// a datagram or seqpacket socket is read whole and written whole. A source that loses what a short read leaves is
/// never read with [less room](crate::fd_info::FdInfo::least_read) than it needs: what the limit does not want stays in
/// the buffer, for the caller. A source opened with `O_DIRECT` is read
/// in whole blocks; what the limit does not want of the last one stays in the buffer, and the source is
/// rewound over it in the end. For a sink opened so whole blocks are gathered: what completes none waits in
/// the buffer for more, or for the end.
///
/// # Errors
///
/// Never [`Step::Unsupported`]: here every errno is final and speaks of the side it came from, but for
/// those of bad blocks that are to be [skipped](skip). A
/// write that takes 0 of some bytes is final too. A message longer than the buffer, 256 KiB, is refused
/// with `EMSGSIZE` and stays in the source.
///
/// # Kernel notes
///
/// A read of 0 is end of file for every kind of source; a datagram socket says it with an empty
/// message. A read from `/proc` or a terminal is short long before the end, so that only 0 counts.
///
/// # References
/// - [read(2)](https://man7.org/linux/man-pages/man2/read.2.html)
/// - [write(2)](https://man7.org/linux/man-pages/man2/write.2.html)
/// - [GNU coreutils, ioblksize.h](https://git.savannah.gnu.org/cgit/coreutils.git/tree/src/ioblksize.h)
pub(super) fn step<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    let mut ready = ready(kernel, state, budget)?;
    if ready == 0 {
        let is_empty = state.buffer.is_empty();
        match &mut state.batch {
            Some(batch) if batch.has_ended => return Ok(Step::Eof),
            // To read more is another step: it may have to be waited for.
            Some(batch) if !batch.is_short && !is_empty => {
                batch.is_short = true;
                return Ok(Step::Filled);
            }
            _ => {}
        }
        match (fill(kernel, state, budget)?, &mut state.batch) {
            // The odd rest has its turn.
            (Some(Step::Eof), Some(batch)) if !state.buffer.is_empty() => batch.has_ended = true,
            (Some(answer), _) => return Ok(answer),
            (None, _) => {}
        }
        if budget.waits_between(state) {
            return Ok(Step::Filled);
        }
        ready = self::ready(kernel, state, budget)?;
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

/// How many bytes are there to be written now.
fn ready<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<usize, CallError> {
    block_batch::ready(kernel, state, budget)
        .map_err(|errno| CallError::new("lseek", Side::Sink, errno))
}

/// Reads once into the buffer, behind what waits there for more. An answer means that nothing came, or that what came
/// is not wanted: [`Step::Limit`], if the message in the buffer is longer than the limit allows.
pub(crate) fn fill<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Option<Step>, CallError> {
    let pending = state.buffer.pending().len() as u64;
    if let Some(answer) = packets::splice_part(kernel, state, budget)? {
        return Ok(Some(answer));
    }
    let in_pipe = state.in_pipe();
    let source = &state.source.info;
    let least = packets::least_read(state, budget);
    if in_pipe == 0 && source.kind == Kind::Datagram {
        match kernel.next_datagram(state.source.fd, budget.blocking) {
            Ok(len) if len > state.buffer.max_capacity() => {
                return Err(CallError::new("recv", Side::Source, Errno::MSGSIZE));
            }
            Ok(len) if len as u64 > budget.remaining => return Ok(Some(Step::Limit)),
            Ok(_) => state.buffer.reserve(usize::MAX, Alignment::CacheLine),
            Err(errno) => return stopped("recv", Side::Source, errno).map(Some),
        }
    } else {
        let expected = match source.size {
            _ if state.buffer.was_filled() => u64::MAX,
            // A full pipe, and one byte more, for the same reason as below.
            None if source.kind == Kind::Pipe => pipe::DEFAULT_CAPACITY as u64 + 1,
            // One more than it has, so that the end does not look like a full buffer.
            Some(size) => size.saturating_add(1).max(in_pipe),
            None => in_pipe.max(SMALL as u64),
        };
        let len = budget.max.min(expected).max(least as u64);
        let len = len.max(packets::room(kernel, state));
        let len = len.saturating_add(pending);
        let is_direct = state.source.info.direct || state.sink.info.direct;
        let (len, alignment) = if is_direct {
            (whole_blocks(len, state), Alignment::Page)
        } else {
            (len, Alignment::CacheLine)
        };
        // A `usize` has 32 bits on some targets, and a file may be longer.
        let len = len.min(state.buffer.max_capacity() as u64);
        state.buffer.reserve(len as usize, alignment);
    }
    let len = len_to_read(state, budget, least);
    let len = if in_pipe > 0 {
        len
    } else {
        match skip::ahead(kernel, state, len)? {
            Ahead::Read(len) => len,
            Ahead::Filled => return Ok(None),
            Ahead::Again => return Ok(Some(Step::Interrupted)),
        }
    };
    let is_small = skip::may_be_too_small(state, len);
    let is_single = skip::is_single(state, len);
    state.calls += 1;
    let read = match &mut state.pipe {
        Some(pipe) if pipe.in_flight > 0 => {
            let len = len.min(in_pipe as usize);
            let room = state.buffer.spare_mut(len);
            kernel
                .read(pipe.reader(), None, room, Blocking::MaySleep)
                .inspect(|n| {
                    pipe.in_flight -= *n as u64;
                })
        }
        _ => {
            let room = state.buffer.spare_mut(len);
            // One that turns out too small is made again, and larger.
            let reopened = (!is_small).then_some(&mut state.source_reopened);
            let read = match reopened {
                Some(reopened) if is_single => reopened.read_pages(kernel, &mut state.source, room),
                reopened => calls::read(kernel, &mut state.source, reopened, room, budget.blocking),
            };
            read.inspect(|n| {
                state.source.advance(*n as u64);
            })
        }
    };
    match read {
        Ok(0) if in_pipe > 0 => Err(CallError {
            call: "read",
            side: Side::Neither,
            cause: Cause::WriteZero,
        }),
        Ok(0) if state.source.reserved() > 0 => {
            // The file has become shorter. A read by the cursor says whether it ends there.
            let given_back = state.source.give_back_all(kernel);
            given_back.map_err(|errno| CallError::new("lseek", Side::Source, errno))?;
            Ok(Some(Step::Interrupted))
        }
        Ok(0) => Ok(Some(Step::Eof)),
        Ok(n) => {
            state.buffer.fill(n);
            state.bad.could_read();
            let is_message = state.source.info.kind == Kind::Datagram;
            if is_message && n as u64 > budget.remaining {
                // Another reader took the one that was looked at, and this one is longer.
                return Ok(Some(Step::Limit));
            }
            Ok(None)
        }
        Err(errno @ (Errno::INTR | Errno::AGAIN)) => stopped("read", Side::Source, errno).map(Some),
        Err(errno) => skip::failed(kernel, state, len, errno, budget).map(Some),
    }
}

/// How many bytes to read, at least `least`, into the room that was made for them.
fn len_to_read(state: &CopyState<'_>, budget: &StepBudget, least: usize) -> usize {
    let pending = state.buffer.pending().len() as u64;
    let len = match (state.source.info.kind, state.sink.info.kind) {
        (Kind::Datagram, _) => state.buffer.max_capacity(),
        // 32 KiB fit one datagram of every family.
        (_, Kind::Datagram) => budget.len(state, SMALL as u64),
        _ => budget.len(state, state.buffer.max_capacity() as u64),
    };
    // What waits there for more is a part of what the limit leaves.
    let left = budget.remaining.saturating_sub(pending);
    let len = len.min(usize::try_from(left).unwrap_or(usize::MAX));
    let len = len.max(least);
    let reads_blocks = state.source.info.direct && state.in_pipe() == 0 && pending == 0;
    if reads_blocks {
        state.source.clamp(whole_blocks(len as u64, state)) as usize
    } else {
        len
    }
}

/// Writes once from the first `ready` bytes of the buffer, or makes a hole instead of writing zeros.
fn drain<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    ready: usize,
    blocking: Blocking,
) -> Result<Step, CallError> {
    let pending = &state.buffer.pending()[..ready];
    let framing = match state.source.info.kind {
        Kind::Datagram => Framing::Message,
        _ => Framing::Stream,
    };
    let pending = match state.records.admit(pending, framing) {
        Admission::Bytes(n) => &pending[..n],
        Admission::Later => return Ok(Step::Filled),
        Admission::Never => return Ok(Step::Limit),
    };
    let pending = match sparse::leading_run(pending, &state.holes, &state.sink) {
        Run::Zeros(n) => {
            let (sink, reopened) = (&mut state.sink, &mut state.sink_reopened);
            let left = state.holes.make(kernel, sink, reopened, n as u64)?;
            if left > 0 {
                return Ok(left_as_hole(state, left as usize));
            }
            &state.buffer.pending()[..n]
        }
        Run::Data(n) => &state.buffer.pending()[..n],
    };
    state.calls += 1;
    let (sink, reopened) = (&mut state.sink, &mut state.sink_reopened);
    let step = pour(kernel, sink, reopened, pending, blocking)?;
    if let Step::Moved(n) = step {
        return Ok(delivered(state, n as usize));
    }
    Ok(step)
}

/// As many bytes, and those that complete the last block; the buffer holds all of them.
fn whole_blocks(len: u64, state: &CopyState<'_>) -> u64 {
    len.min(state.buffer.max_capacity() as u64)
        .next_multiple_of(buffer::ALIGNMENT as u64)
}

/// Accounts for `n` bytes that the sink has, counts their records, and shows them to whoever inspects.
fn delivered(state: &mut CopyState<'_>, n: usize) -> Step {
    state.inspect_zeros(u64::MAX);
    let bytes = state.buffer.consume(n);
    state.records.accepted(bytes);
    if let Some(inspect) = &mut state.inspect {
        inspect(bytes);
    }
    Step::Moved(n as u64)
}

/// Accounts for `n` zeros that the sink has as a hole. They are shown when more follows, or at the end: should the hole be
/// the last thing there, it may yet turn out that it cannot be.
fn left_as_hole(state: &mut CopyState<'_>, n: usize) -> Step {
    let bytes = state.buffer.consume(n);
    state.records.accepted(bytes);
    state.uninspected_zeros += n as u64;
    Step::Moved(n as u64)
}
