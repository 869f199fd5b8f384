//! Pipes in packet mode: no read of theirs loses the rest of a packet.
//!
//! A read takes one packet, and what it has no room for is thrown away. A splice takes a part of one and leaves the
//! rest, and both are packets still. No flag of the reader says whether a pipe holds packets: `pipe2(O_DIRECT)` sets it for the
//! writer alone, who may set it later too. So any pipe may.

use crate::endpoint::Kind;
use crate::fault::Fault;
use crate::pipe::Pipe;
use crate::route::{Ask, Route};
use crate::strategy::{Step, splice_pipe};
use crate::sys::{Errno, Kernel};

/// The most that a packet may hold on this kind of machine: the largest page there is.
const LARGEST: u64 = if cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
    4096
} else {
    64 << 10
};

/// Splices what is wanted of a pipe into the private pipe, if that is less than a packet may hold. An answer means that
/// nothing came.
pub(super) fn splice_part<K: Kernel>(
    kernel: &K,
    route: &mut Route<'_>,
    ask: &Ask,
) -> Result<Option<Step>, Fault> {
    let pending = route.buffer.pending().len() as u64;
    let max = ask.max.min(ask.remaining.saturating_sub(pending));
    let is_asked_for = route.source.endpoint.kind == Kind::Pipe
        && route.in_pipe() == 0
        && !route.refuses_part
        // To ask for the size of a page may take a call.
        && max < LARGEST
        && max < kernel.page_size();
    if !is_asked_for {
        return Ok(None);
    }
    let pipe = match route.pipe.take() {
        Some(pipe) => Ok(pipe),
        // A page is enough.
        None => Pipe::open_of_any_size(kernel, route.pipe_size),
    };
    let pipe = match pipe {
        Ok(pipe) => pipe,
        Err(Errno::INTR) => return Ok(Some(Step::Interrupted)),
        Err(_) => {
            route.refuses_part = true;
            return Ok(None);
        }
    };
    match splice_pipe::fill_pipe(kernel, route, &Ask { max, ..*ask }, pipe)? {
        // Without a splice a read takes what is wanted, as anybody's would.
        Some(Step::Unsupported(_)) => {
            route.refuses_part = true;
            Ok(None)
        }
        answer => Ok(answer),
    }
}

/// The room that the next read must offer at least, in bytes, whatever is asked of it.
pub(super) fn least_read(route: &Route<'_>, ask: &Ask) -> usize {
    match route.in_pipe() {
        // Without a splice a rate is overdrawn, and a limit is not.
        0 if route.refuses_part => {
            let pending = route.buffer.pending().len() as u64;
            LARGEST.min(ask.remaining.saturating_sub(pending)) as usize
        }
        0 => route.source.endpoint.least_read(),
        in_pipe => in_pipe.min(ask.max).min(LARGEST) as usize,
    }
}
