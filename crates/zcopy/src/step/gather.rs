//! Whole blocks for a sink that is open with `O_DIRECT`.

use crate::end::End;
use crate::route::{Ask, Route};
use crate::sys::{Kernel, Result};

/// How many of the pending bytes are to be written now: all of them, unless blocks are gathered. Then those up
/// to the end of the last whole block, and the odd rest when nothing more will come, or is wanted.
pub(super) fn ready<K: Kernel>(kernel: &K, route: &mut Route<'_>, ask: &Ask) -> Result<usize> {
    let pending = route.buffer.pending().len() as u64;
    // More than the limit allows is there only as a part of a block.
    let len = pending.min(ask.remaining);
    let Some(gather) = route.gather.filter(|_| len > 0) else {
        return Ok(len as usize);
    };
    let waiting = &route.buffer.pending()[..len as usize];
    let is_last =
        pending >= ask.remaining || route.buffer.is_full() || route.records.is_last_among(waiting);
    if gather.has_ended || is_last {
        return Ok(len as usize);
    }
    let place = place(kernel, &route.sink)?;
    let grain = route.sink_detour.grain(kernel, &route.sink);
    let end = (place + len) / grain * grain;
    Ok(end.saturating_sub(place) as usize)
}

/// Where the sink's next byte goes.
pub(super) fn place<K: Kernel>(kernel: &K, sink: &End<'_>) -> Result<u64> {
    if sink.endpoint.append {
        return kernel.fstat(sink.fd).map(|status| status.size);
    }
    sink.place(kernel)
}
