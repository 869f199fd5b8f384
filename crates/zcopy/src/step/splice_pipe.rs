//! `splice(2)` twice, through a private pipe.

use std::os::fd::BorrowedFd;

use crate::call_error::{CallError, Cause};
use crate::copy_state::{CopyState, StepBudget};
use crate::endpoint::Endpoint;
use crate::pipe::Pipe;
use crate::side::Side;
use crate::step::splice::{flags, is_unsupported};
use crate::step::{Step, reserved};
use crate::sys::{Blocking, Errno, Kernel};

/// Fills the empty private pipe from the source, up to its capacity, then drains it once into the
/// sink.
///
/// Whatever the sink did not take stays in the pipe for the next step. Because the pipe is empty
/// whenever it is filled, the kernel's answers are unambiguous: filling speaks of the source,
/// draining of the sink.
///
/// # Errors
///
/// [`Step::Unsupported`], with what is in flight left in the pipe, on
/// - `EINVAL`: that end takes no splice: an appending file, `/dev/full`, `/dev/null` as a source, a
///   device;
/// - `ENOSYS`, `EPERM`, `EOPNOTSUPP`, `EXDEV`, `EBADF`: a seccomp filter or a file system that does
///   not do it;
/// - `EOVERFLOW`: the range ends past the largest offset; `buffered` moves what still fits;
/// - any errno of opening the pipe: no descriptor, or no budget for a pipe worth having;
/// - less than a block left for a sink that is open with `O_DIRECT`, or one that stands within a block: `EINVAL`,
///   without a call, as a splice may write a part of what it then refuses;
/// - a drain that returns 0 though the pipe holds bytes: `buffered` asks the sink in plain words.
///
/// Every other errno is final once bytes have moved.
///
/// # Kernel notes
///
/// A 0 from filling is not surely the end of a special file; the engine confirms it by a read.
/// Neither call can sleep on the private pipe. On the caller's own ends `SPLICE_F_NONBLOCK` helps
/// where they are pipes; a socket or terminal obeys its own `O_NONBLOCK`, and the engine waits
/// before it asks.
///
/// # References
/// - [splice(2)](https://man7.org/linux/man-pages/man2/splice.2.html)
/// - [pipe(7), on capacity](https://man7.org/linux/man-pages/man7/pipe.7.html)
pub(super) fn step<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    if state.in_pipe() == 0 {
        if let Some(answer) = fill(kernel, state, budget)? {
            return Ok(answer);
        }
        if budget.waits_between(state) {
            return Ok(Step::Filled);
        }
    }
    drain(kernel, state, budget)
}

/// Takes bytes from the source into the empty pipe. An answer means that there is nothing to drain.
pub(crate) fn fill<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Option<Step>, CallError> {
    match state.take_pipe(kernel) {
        Ok(pipe) => fill_pipe(kernel, state, budget, pipe),
        Err(errno) => Ok(Some(Step::Unsupported(errno.into()))),
    }
}

/// The same, into this pipe, which becomes the private one.
pub(super) fn fill_pipe<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
    mut pipe: Pipe,
) -> Result<Option<Step>, CallError> {
    let flags = flags(budget.blocking);
    let len = budget.len(state, pipe.capacity as u64);
    let taken = reserved::take(kernel, state, len, |state, len| {
        kernel.splice(state.source.at(), (pipe.writer(), None), len, flags)
    });
    let answer = match taken {
        Ok(Step::Moved(n)) => {
            pipe.in_flight = n;
            Ok(None)
        }
        Ok(step) => Ok(Some(step)),
        Err(Errno::AGAIN) => Ok(Some(Step::Blocked(Side::Source))),
        Err(errno) if is_unsupported(errno) => Ok(Some(Step::Unsupported(errno.into()))),
        Err(errno) => Err(CallError::new("splice", Side::Source, errno)),
    };
    state.pipe = Some(pipe);
    answer
}

/// Gives the sink as much as it takes in one call.
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
    let step = pour(kernel, pipe.reader(), &mut state.sink, len, budget.blocking);
    if let Ok(Step::Moved(n)) = step {
        pipe.in_flight -= n;
    }
    step
}

/// Gives the sink up to `len` bytes, which the pipe must hold: a range of the sink is reserved for them.
pub(crate) fn pour<K: Kernel>(
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
    match kernel.splice((pipe, None), sink.at(), len, flags(blocking)) {
        Ok(0) => Ok(Step::Unsupported(Cause::WriteZero)),
        Ok(n) => {
            sink.advance(n as u64);
            Ok(Step::Moved(n as u64))
        }
        Err(Errno::INTR) => Ok(Step::Interrupted),
        Err(Errno::AGAIN) => Ok(Step::Blocked(Side::Sink)),
        Err(errno) if is_unsupported(errno) => Ok(Step::Unsupported(errno.into())),
        Err(errno) => Err(CallError::new("splice", Side::Sink, errno)),
    }
}
