//! One step of a transfer: the few calls that move bytes once, by the given strategy.
//!
//! Each strategy has a file in `step/`, which documents the errnos of its calls in a table. The
//! third column of each table uses these terms, where it does not describe the consequence itself:
//!
//! - **repeated**: the step returns [`Step::Repeat`]. The engine takes it again, unless the
//!   caller has asked it to stop.
//! - **waits**: the step returns [`Step::Blocked`]. The driver polls that side, and the engine
//!   takes the step again.
//! - **refused**: the step returns [`Step::Unsupported`]. The sink has received nothing; bytes that
//!   the step took from the source stay in flight. The strategy that follows this one in the plan
//!   continues at the same position, after read and write have delivered the bytes in flight. A
//!   strategy that the caller insists on fails the transfer instead.
//! - **fails**: the step returns a [`CallError`]. If the strategy has moved bytes before, or the
//!   caller requested it, the transfer fails. If not, the next strategy tries, unless the errno is
//!   [fatal](Strategy::is_fatal) or one end is a socket: a socket reports an error only once, and
//!   the next call would see the end of the stream.
//!
//! A call that names a range of a file needs a [reservation](crate::endpoint) first. If the range
//! cannot be reserved, the step is refused without the call; at the end of a disk (`ENOSPC`) it may
//! fail.

use crate::call_error::{CallError, Cause};
use crate::copy_state::{CopyState, StepBudget};
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::{self, Errno, Kernel};

mod block_batch;
pub(crate) mod buffered;
mod copy_file_range;
mod reflink;
mod sendfile;
mod splice;
pub(crate) mod splice_pipe;
pub(crate) mod tee;

/// The result of one step. A step never waits in `poll(2)`. It sleeps only inside its system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The sink accepted this many bytes. Others may still be in flight, and the next step
    /// continues with them. `Moved(0)` means that nothing was done, and that the engine goes on.
    /// Functions that make one call of a step return it for the bytes that the call moved.
    Moved(u64),
    /// The step made a hole of this many bytes in the sink, as in the source. No bytes moved.
    Hole(u64),
    /// The sink received nothing, and the observer is not called. Most often, bytes left the
    /// source, and the next step gives them to the sink or reads more to complete a block. Or the
    /// rate of records does not allow the pending bytes yet.
    Filled,
    /// The call reported the end of the source.
    Eof,
    /// The next message is longer than the limit allows. All of it stays in the source or in the
    /// buffer.
    MessageTooLong,
    /// This side is not ready; `None` if the call does not say which side it is.
    Blocked(Option<Side>),
    /// A signal interrupted the call, or a failed read has to be repeated with another length or
    /// position. Nothing moved.
    Repeat,
    /// The strategy cannot go on here. The sink received nothing, and bytes that have left the
    /// source stay in flight.
    Unsupported(Cause),
}

/// Takes one step with the given strategy.
pub(crate) fn step<K: Kernel>(
    strategy: Strategy,
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    match strategy {
        Strategy::Reflink => reflink::step(kernel, state, budget),
        Strategy::CopyFileRange => copy_file_range::step(kernel, state, budget),
        Strategy::Sendfile => sendfile::step(kernel, state, budget),
        Strategy::Splice => splice::step(kernel, state, budget),
        Strategy::SplicePipe => splice_pipe::step(kernel, state, budget),
        Strategy::Buffered => buffered::step(kernel, state, budget),
        // No plan for one source and one sink contains it.
        Strategy::Tee => Ok(Step::Unsupported(Errno::INVAL.into())),
    }
}

/// Reserves up to `len` bytes at both ends, and moves them with `call`, which receives the reserved
/// length.
///
/// Returns [`Step::Unsupported`] without a call if they cannot be reserved. A sink that goes by the
/// cursor reserves nothing on a disk that is nearly full, because a range that cannot be filled
/// would stay a gap.
///
/// # Errors
///
/// The errno of `call`.
fn move_reserved<'a, K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'a>,
    len: usize,
    call: impl FnOnce(&CopyState<'a>, usize) -> sys::Result<usize>,
) -> sys::Result<Step> {
    let reserved = reserve(kernel, state, len as u64);
    let step = take_reserved(state, reserved, call);
    if let Ok(Step::Moved(n)) = step {
        state.sink.advance(n);
    }
    step
}

/// Reserves up to `len` bytes at both ends, and returns the length for the call: 0 at the end of
/// the source.
fn reserve<K: Kernel>(kernel: &K, state: &mut CopyState<'_>, mut len: u64) -> Result<u64, Cause> {
    if state.sink.goes_by_cursor() {
        // Bytes that do not arrive would leave a gap in the sink.
        len = state.source.clamp_to_known_eof(kernel, len)?;
    }
    if len > 0 {
        len = state.source.reserve_to_read(kernel, len)?;
    }
    match len {
        0 => Ok(0),
        len => state.sink.reserve_to_write(kernel, len),
    }
}

/// Takes bytes out of the source with `call`, which receives the reserved length. Makes no call if
/// that is 0, or if the reservation failed.
///
/// # Errors
///
/// The errno of `call`.
fn take_reserved<'a>(
    state: &mut CopyState<'a>,
    reserved: Result<u64, Cause>,
    call: impl FnOnce(&CopyState<'a>, usize) -> sys::Result<usize>,
) -> sys::Result<Step> {
    let len = match reserved {
        Ok(0) => return Ok(Step::Eof),
        Ok(len) => len as usize,
        Err(cause) => return Ok(Step::Unsupported(cause)),
    };
    state.calls += 1;
    match call(state, len)? {
        0 => Ok(Step::Eof),
        n => {
            state.source.advance(n as u64);
            Ok(Step::Moved(n as u64))
        }
    }
}
