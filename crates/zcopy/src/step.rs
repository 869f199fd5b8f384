//! One step of a transfer: what it can come to, and the match that dispatches.

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

/// What one step came to. A step never sleeps on its own account and never polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The sink accepted this many bytes. Some may still be in flight; the next step goes on with
    /// those.
    Moved(u64),
    /// The source has a hole of this many bytes here, and now so has the sink. Nothing moved.
    Hole(u64),
    /// Bytes left the source; the sink has its turn in the next step.
    Filled,
    /// The call says that the source has ended.
    Eof,
    /// The next message is longer than the limit allows; it stays in the source, or in the buffer, whole.
    Limit,
    /// Nothing moves until this side is ready; [`Side::Neither`] when the call does not say which.
    Blocked(Side),
    /// A signal came, or a read that failed will be made again in another way; nothing happened.
    Interrupted,
    /// This pair cannot be served this way. Nothing more moves by it, and nothing is lost.
    Unsupported(Cause),
}

/// Takes one step by the given strategy.
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
        // No plan for one source and one sink names it.
        Strategy::Tee => Ok(Step::Unsupported(Errno::INVAL.into())),
    }
}
