//! Gathers whole blocks for a sink that is open with `O_DIRECT`.

use crate::call_error::CallError;
use crate::copy_state::{CopyState, StepBudget};
use crate::endpoint::Endpoint;
use crate::side::Side;
use crate::sys::{self, Kernel};

/// Returns how many pending bytes to write now.
///
/// These are all pending bytes, unless the transfer gathers blocks. Then they are those up to the
/// end of the last whole block of the sink, and all of them once no more bytes will come, the limit
/// is reached, or the buffer is full.
pub(super) fn ready<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<usize, CallError> {
    let pending = state.buffer.pending().len() as u64;
    // A read of whole blocks may have brought more bytes than the limit allows.
    let len = pending.min(budget.until_limit);
    let Some(batch) = state.batch.filter(|_| len > 0) else {
        return Ok(len as usize);
    };
    let waiting = &state.buffer.pending()[..len as usize];
    let is_last = pending >= budget.until_limit
        || state.buffer.is_full()
        || state.records.is_last_among(waiting);
    if batch.has_ended || is_last {
        return Ok(len as usize);
    }
    let position =
        position(kernel, &state.sink).map_err(CallError::of_call("lseek", Side::Sink))?;
    let granularity = state.sink_reopened.granularity(kernel, &state.sink);
    let end = (position + len) / granularity * granularity;
    Ok(end.saturating_sub(position) as usize)
}

/// Returns the sink's position: the end of the file if the sink appends.
pub(super) fn position<K: Kernel>(kernel: &K, sink: &Endpoint<'_>) -> sys::Result<u64> {
    if sink.info.append {
        return kernel.file_size(sink.fd);
    }
    sink.current_position(kernel)
}
