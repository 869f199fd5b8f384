//! `splice(2)` twice, through a private pipe.
//!
//! A step fills the empty private pipe from the source, up to its capacity, and drains it into the
//! sink with one call. If calls may not sleep and the sink can block, the step ends after the fill,
//! and the next one drains. Bytes that the sink does not accept stay in the pipe for the next step.
//! Because the pipe is empty whenever it is filled, errors are unambiguous: those of a fill concern
//! the source, and those of a drain concern the sink.
//!
//! | errno | meaning | next |
//! |---|---|---|
//! | any errno of opening the pipe | no descriptor, or no budget for a pipe of 64 KiB | refused |
//! | `EINVAL` | this end takes no splice | refused |
//! | `ENOSYS`, `EPERM`, `EOPNOTSUPP`, `EXDEV`, `EBADF` | seccomp, or the file system | refused |
//! | `EOVERFLOW` | the range ends past the largest offset | refused |
//! | `EAGAIN` | the source is empty (fill), or the sink is full (drain) | waits |
//! | `EINTR` | a signal arrived | repeated |
//! | any other | an error of the source (fill) or of the sink (drain) | fails |
//! | a fill returns 0 | the end of a pipe | the transfer ends |
//! | a fill returns 0 | the end of another source, or an urgent mark | confirmed by a read |
//! | a drain returns 0 | the sink accepts nothing from a pipe that holds bytes | refused |
//! | any errno of the search for packets | no descriptor, no budget, or seccomp | refused |
//! | packets were found, and a sink is a pipe | its reader expects a stream | refused |
//!
//! A file in append mode, `/dev/full`, `/dev/null` as a source, and many devices take no splice.
//! After a refusal the bytes in flight stay in the pipe, and `buffered` reads them from there: its
//! write shows the sink's own errno, and it moves what still fits below the largest offset.
//!
//! A drain into a sink that is open with `O_DIRECT` is refused without a call if less than a block
//! is left, or if the sink's position lies within a block: a splice may write a part of what it
//! then refuses.
//!
//! # Kernel notes
//!
//! - A 0 from filling does not prove the end of a special file.
//! - Neither call can sleep on the private pipe. `SPLICE_F_NONBLOCK` concerns the caller's ends
//!   only if they are pipes. A socket or terminal obeys its own `O_NONBLOCK`, and the driver polls
//!   it before the call if calls may not sleep.
//! - A packet of a pipe stays a packet in the private pipe. A fill for a sink that is a pipe
//!   therefore ends with a search for packets ([`Pipe::holds_packets`]).
//! - Linux gives a user above `/proc/sys/fs/pipe-user-pages-soft` pipes of one or two pages.
//!   Through less than 64 KiB, read and write are faster.
//!
//! Manuals: [splice(2)](https://man7.org/linux/man-pages/man2/splice.2.html),
//! [pipe(7)](https://man7.org/linux/man-pages/man7/pipe.7.html) on capacity.

use std::os::fd::BorrowedFd;

use crate::call_error::{CallError, Cause};
use crate::copy_state::{CopyState, StepBudget};
use crate::endpoint::Endpoint;
use crate::pipe::Pipe;
use crate::side::Side;
use crate::step::splice::{flags, on_errno};
use crate::step::{self, Step};
use crate::sys::{Blocking, Errno, Kernel};

/// Fills the private pipe if it is empty, and drains it with one call.
pub(super) fn step<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    if state.in_pipe() == 0 {
        let filled = fill(kernel, state, budget)?;
        if filled != Step::Filled {
            return Ok(filled);
        }
        if budget.ends_after_fill(state) {
            return Ok(Step::Filled);
        }
    }
    drain(kernel, state, budget)
}

/// Splices from the source into the empty private pipe, which it opens first if necessary. Returns
/// [`Step::Filled`] if bytes arrived. Returns [`Step::Unsupported`] if the pipe cannot be opened,
/// the range cannot be reserved, the source takes no splice, or the bytes must not leave the pipe
/// by a splice.
pub(crate) fn fill<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    let mut pipe = match state.take_pipe(kernel) {
        Ok(pipe) => pipe,
        Err(errno) => return Ok(Step::Unsupported(errno.into())),
    };
    if !state.searches_for_packets {
        return fill_pipe(kernel, state, budget, pipe);
    }
    let max = match pipe.searchable_len(kernel) {
        Ok(len) => budget.max.min(len),
        Err(errno) => {
            state.pipe = Some(pipe);
            return Ok(Step::Unsupported(errno.into()));
        }
    };
    let step = fill_pipe(kernel, state, &StepBudget { max, ..*budget }, pipe)?;
    let Some(pipe) = state.pipe.as_mut().filter(|_| step == Step::Filled) else {
        return Ok(step);
    };
    Ok(match pipe.holds_packets(kernel, &mut state.calls) {
        Ok(false) => step,
        Ok(true) => Step::Unsupported(Cause::Packets),
        Err(errno) => Step::Unsupported(errno.into()),
    })
}

/// Splices from the source into this empty pipe, which becomes the private pipe. Returns like
/// [`fill`].
pub(super) fn fill_pipe<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
    mut pipe: Pipe,
) -> Result<Step, CallError> {
    let flags = flags(budget.blocking);
    let len = budget.len(state, pipe.capacity as u64);
    let reserved = state.source.reserve_to_read(kernel, len as u64);
    let taken = step::take_reserved(state, reserved.map_err(Cause::from), |state, len| {
        kernel.splice(state.source.fd_at(), (pipe.writer(), None), len, flags)
    });
    let mut step =
        taken.or_else(|errno| on_errno("splice", Some(Side::Source), Side::Source, errno));
    if let Ok(Step::Moved(n)) = step {
        pipe.in_flight = n;
        step = Ok(Step::Filled);
    }
    state.pipe = Some(pipe);
    step
}

/// Splices from the private pipe into the sink, as much as it accepts in one call.
pub(crate) fn drain<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    let Some(pipe) = &mut state.pipe else {
        return Ok(Step::Moved(0));
    };
    let mut len = match budget.blocking {
        Blocking::MaySleep => pipe.in_flight,
        Blocking::Nonblocking => pipe.in_flight.min(budget.max),
    };
    if state.sink.info.direct {
        let granularity = state.sink_reopened.granularity(kernel, &state.sink);
        let position = state.sink.position();
        if len < granularity
            || position.is_none_or(|position| !position.is_multiple_of(granularity))
        {
            return Ok(Step::Unsupported(Errno::INVAL.into()));
        }
        len -= len % granularity;
    }
    state.calls += 1;
    let step = splice_out(kernel, pipe.reader(), &mut state.sink, len, budget.blocking);
    if let Ok(Step::Moved(n)) = step {
        pipe.in_flight -= n;
    }
    step
}

/// Splices up to `len` bytes from this pipe into a reserved range of the sink. The pipe must hold
/// these bytes.
pub(crate) fn splice_out<K: Kernel>(
    kernel: &K,
    pipe: BorrowedFd<'_>,
    sink: &mut Endpoint<'_>,
    len: u64,
    blocking: Blocking,
) -> Result<Step, CallError> {
    let len = match sink.reserve_to_write(kernel, sink.clamp(len).max(1)) {
        Ok(len) => len as usize,
        Err(Cause::Errno(Errno::NOSPC)) => {
            return Err(CallError::new("splice", Side::Sink, Errno::NOSPC));
        }
        Err(cause) => return Ok(Step::Unsupported(cause)),
    };
    match kernel.splice((pipe, None), sink.fd_at(), len, flags(blocking)) {
        Ok(0) => Ok(Step::Unsupported(Cause::ReturnedZero)),
        Ok(n) => {
            sink.advance(n as u64);
            Ok(Step::Moved(n as u64))
        }
        Err(errno) => on_errno("splice", Some(Side::Sink), Side::Sink, errno),
    }
}
