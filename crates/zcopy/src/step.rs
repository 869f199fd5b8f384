//! One step of a transfer: one call that moves bytes, by the given strategy.
//!
//! Each file in `step/` makes one system call and documents its errnos in a table. The third column
//! of each table uses these terms:
//!
//! - **repeated**: the step returns [`Step::Interrupted`]. The engine takes it again, unless the
//!   caller has asked it to stop.
//! - **waits**: the step returns [`Step::Blocked`]. The engine polls that side and takes the step
//!   again.
//! - **refused**: the step returns [`Step::Unsupported`]. The call has moved nothing. The next
//!   strategy of the plan continues at the same position, after read and write have delivered the
//!   bytes in flight. A strategy that the caller insists on fails the transfer instead.
//! - **fails**: the step returns a [`CallError`]. If the strategy has moved bytes before, the
//!   transfer fails. If not, the next strategy tries, unless the errno is
//!   [fatal](Strategy::is_fatal) or one end is a socket: a socket reports an error only once, and
//!   the next call would see the end of the stream.
//!
//! A call that names a range of a file needs a [reservation](crate::endpoint) first. If the range
//! cannot be reserved, the step is refused without the call.

use crate::call_error::{CallError, Cause};
use crate::copy_state::{CopyState, StepBudget};
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::{Errno, Kernel};

mod block_batch;
pub(crate) mod buffered;
mod copy_file_range;
mod reflink;
mod reserved;
mod sendfile;
mod splice;
pub(crate) mod splice_pipe;
pub(crate) mod tee;

/// The result of one step. A step never polls. It sleeps only inside its system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The sink accepted this many bytes. Others may still be in flight, and the next step
    /// continues with them.
    Moved(u64),
    /// The step made a hole of this many bytes in the sink, as in the source. No bytes moved.
    Hole(u64),
    /// Bytes left the source. The next step gives them to the sink, or reads more to complete a
    /// block.
    Filled,
    /// The call reported the end of the source.
    Eof,
    /// The next message is longer than the limit allows. All of it stays in the source or in the
    /// buffer.
    Limit,
    /// This side is not ready. [`Side::Neither`] if the call does not say which side it is.
    Blocked(Side),
    /// A signal interrupted the call, or a failed read has to be repeated with another length or
    /// position. Nothing moved.
    Interrupted,
    /// The strategy cannot serve this pair. The call moved nothing, and bytes in flight stay there.
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
