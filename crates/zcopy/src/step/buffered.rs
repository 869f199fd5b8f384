//! `read(2)` and `write(2)` through one buffer: the route that serves every pair, and the judge of
//! every other.

use crate::buffer::{self, Alignment, SMALL};
use crate::endpoint::Kind;
use crate::fault::{Cause, Fault};
use crate::pipe;
use crate::records::{Admitted, Framing};
use crate::route::{Ask, Route};
use crate::side::Side;
use crate::sparse::{self, Run};
use crate::step::{Step, gather};
use crate::sys::{Errno, Kernel, Patience};
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
/// never read with [less room](crate::endpoint::Endpoint::least_read) than it needs: what the limit does not want stays in
/// the buffer, for the caller. A source opened with `O_DIRECT` is read
/// in whole blocks; what the limit does not want of the last one stays in the buffer, and the source is
/// rewound over it in the end. For a sink opened so whole blocks are gathered: what completes none waits in
/// the buffer for more, or for the end.
///
/// # Errors
///
/// Never [`Step::Unsupported`]: here every errno is final and speaks of the side it came from, but for
/// those of bad places that are to be [skipped](skip). A
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
pub(super) fn step<K: Kernel>(kernel: &K, route: &mut Route<'_>, ask: &Ask) -> Result<Step, Fault> {
    let mut ready = ready(kernel, route, ask)?;
    if ready == 0 {
        let is_empty = route.buffer.is_empty();
        match &mut route.gather {
            Some(gather) if gather.has_ended => return Ok(Step::Eof),
            // To read more is another step: it may have to be waited for.
            Some(gather) if !gather.is_short && !is_empty => {
                gather.is_short = true;
                return Ok(Step::Filled);
            }
            _ => {}
        }
        match (fill(kernel, route, ask)?, &mut route.gather) {
            // The odd rest has its turn.
            (Some(Step::Eof), Some(gather)) if !route.buffer.is_empty() => gather.has_ended = true,
            (Some(answer), _) => return Ok(answer),
            (None, _) => {}
        }
        if ask.waits_between(route) {
            return Ok(Step::Filled);
        }
        ready = self::ready(kernel, route, ask)?;
    }
    if let Some(gather) = &mut route.gather {
        gather.is_short = ready == 0;
        if ready == 0 {
            return Ok(Step::Filled);
        }
        route.buffer.compact();
    }
    drain(kernel, route, ready, ask.patience)
}

/// How many bytes are there to be written now.
fn ready<K: Kernel>(kernel: &K, route: &mut Route<'_>, ask: &Ask) -> Result<usize, Fault> {
    gather::ready(kernel, route, ask).map_err(|errno| Fault::new("lseek", Side::Sink, errno))
}

/// Reads once into the buffer, behind what waits there for more. An answer means that nothing came, or that what came
/// is not wanted: [`Step::Limit`], if the message in the buffer is longer than the limit allows.
pub(crate) fn fill<K: Kernel>(
    kernel: &K,
    route: &mut Route<'_>,
    ask: &Ask,
) -> Result<Option<Step>, Fault> {
    let pending = route.buffer.pending().len() as u64;
    if let Some(answer) = packets::splice_part(kernel, route, ask)? {
        return Ok(Some(answer));
    }
    let in_pipe = route.in_pipe();
    let source = &route.source.endpoint;
    let least = packets::least_read(route, ask);
    if in_pipe == 0 && source.kind == Kind::Datagram {
        match kernel.next_datagram(route.source.fd, ask.patience) {
            Ok(len) if len > route.buffer.max_capacity() => {
                return Err(Fault::new("recv", Side::Source, Errno::MSGSIZE));
            }
            Ok(len) if len as u64 > ask.remaining => return Ok(Some(Step::Limit)),
            Ok(_) => route.buffer.reserve(usize::MAX, Alignment::CacheLine),
            Err(errno) => return stopped("recv", Side::Source, errno).map(Some),
        }
    } else {
        let expected = match source.size {
            _ if route.buffer.was_filled() => u64::MAX,
            // A full pipe, and one byte more, for the same reason as below.
            None if source.kind == Kind::Pipe => pipe::DEFAULT_CAPACITY as u64 + 1,
            // One more than it has, so that the end does not look like a full buffer.
            Some(size) => size.saturating_add(1).max(in_pipe),
            None => in_pipe.max(SMALL as u64),
        };
        let len = ask.max.min(expected).max(least as u64);
        let len = len.max(packets::room(kernel, route));
        let len = len.saturating_add(pending);
        let is_direct = route.source.endpoint.direct || route.sink.endpoint.direct;
        let (len, alignment) = if is_direct {
            (whole_blocks(len, route), Alignment::Page)
        } else {
            (len, Alignment::CacheLine)
        };
        // A `usize` has 32 bits on some targets, and a file may be longer.
        let len = len.min(route.buffer.max_capacity() as u64);
        route.buffer.reserve(len as usize, alignment);
    }
    let len = len_to_read(route, ask, least);
    let len = if in_pipe > 0 {
        len
    } else {
        match skip::ahead(kernel, route, len)? {
            Ahead::Read(len) => len,
            Ahead::Filled => return Ok(None),
            Ahead::Again => return Ok(Some(Step::Interrupted)),
        }
    };
    let is_small = skip::may_be_too_small(route, len);
    let is_single = skip::is_single(route, len);
    route.calls += 1;
    let read = match &mut route.pipe {
        Some(pipe) if pipe.in_flight > 0 => {
            let len = len.min(in_pipe as usize);
            let room = route.buffer.spare_mut(len);
            kernel
                .read(pipe.reader(), None, room, Patience::Block)
                .inspect(|n| {
                    pipe.in_flight -= *n as u64;
                })
        }
        _ => {
            let room = route.buffer.spare_mut(len);
            // One that turns out too small is made again, and larger.
            let detour = (!is_small).then_some(&mut route.source_detour);
            let read = match detour {
                Some(detour) if is_single => detour.read_pages(kernel, &mut route.source, room),
                detour => calls::read(kernel, &mut route.source, detour, room, ask.patience),
            };
            read.inspect(|n| {
                route.source.advance(*n as u64);
            })
        }
    };
    match read {
        Ok(0) if in_pipe > 0 => Err(Fault {
            call: "read",
            side: Side::Neither,
            cause: Cause::Nothing,
        }),
        Ok(0) if route.source.reserved() > 0 => {
            // The file has become shorter. A read by the cursor says whether it ends there.
            let given_back = route.source.give_back_all(kernel);
            given_back.map_err(|errno| Fault::new("lseek", Side::Source, errno))?;
            Ok(Some(Step::Interrupted))
        }
        Ok(0) => Ok(Some(Step::Eof)),
        Ok(n) => {
            route.buffer.fill(n);
            route.bad.could_read();
            let is_message = route.source.endpoint.kind == Kind::Datagram;
            if is_message && n as u64 > ask.remaining {
                // Another reader took the one that was looked at, and this one is longer.
                return Ok(Some(Step::Limit));
            }
            Ok(None)
        }
        Err(errno @ (Errno::INTR | Errno::AGAIN)) => stopped("read", Side::Source, errno).map(Some),
        Err(errno) => skip::failed(kernel, route, len, errno, ask).map(Some),
    }
}

/// How many bytes to read, at least `least`, into the room that was made for them.
fn len_to_read(route: &Route<'_>, ask: &Ask, least: usize) -> usize {
    let pending = route.buffer.pending().len() as u64;
    let len = match (route.source.endpoint.kind, route.sink.endpoint.kind) {
        (Kind::Datagram, _) => route.buffer.max_capacity(),
        // 32 KiB fit one datagram of every family.
        (_, Kind::Datagram) => ask.len(route, SMALL as u64),
        _ => ask.len(route, route.buffer.max_capacity() as u64),
    };
    // What waits there for more is a part of what the limit leaves.
    let left = ask.remaining.saturating_sub(pending);
    let len = len.min(usize::try_from(left).unwrap_or(usize::MAX));
    let len = len.max(least);
    let reads_blocks = route.source.endpoint.direct && route.in_pipe() == 0 && pending == 0;
    if reads_blocks {
        route.source.clamp(whole_blocks(len as u64, route)) as usize
    } else {
        len
    }
}

/// Writes once from the first `ready` bytes of the buffer, or makes a hole instead of writing zeros.
fn drain<K: Kernel>(
    kernel: &K,
    route: &mut Route<'_>,
    ready: usize,
    patience: Patience,
) -> Result<Step, Fault> {
    let pending = &route.buffer.pending()[..ready];
    let framing = match route.source.endpoint.kind {
        Kind::Datagram => Framing::Message,
        _ => Framing::Stream,
    };
    let pending = match route.records.admit(pending, framing) {
        Admitted::Bytes(n) => &pending[..n],
        Admitted::Later => return Ok(Step::Filled),
        Admitted::Never => return Ok(Step::Limit),
    };
    let pending = match sparse::leading_run(pending, &route.holes, &route.sink) {
        Run::Zeros(n) => {
            let (sink, detour) = (&mut route.sink, &mut route.sink_detour);
            let left = route.holes.make(kernel, sink, detour, n as u64)?;
            if left > 0 {
                return Ok(left_as_hole(route, left as usize));
            }
            &route.buffer.pending()[..n]
        }
        Run::Data(n) => &route.buffer.pending()[..n],
    };
    route.calls += 1;
    let (sink, detour) = (&mut route.sink, &mut route.sink_detour);
    let step = pour(kernel, sink, detour, pending, patience)?;
    if let Step::Moved(n) = step {
        return Ok(delivered(route, n as usize));
    }
    Ok(step)
}

/// As many bytes, and those that complete the last block; the buffer holds all of them.
fn whole_blocks(len: u64, route: &Route<'_>) -> u64 {
    len.min(route.buffer.max_capacity() as u64)
        .next_multiple_of(buffer::ALIGNMENT as u64)
}

/// Accounts for `n` bytes that the sink has, counts their records, and shows them to whoever inspects.
fn delivered(route: &mut Route<'_>, n: usize) -> Step {
    route.inspect_zeros(u64::MAX);
    let bytes = route.buffer.consume(n);
    route.records.accepted(bytes);
    if let Some(inspect) = &mut route.inspect {
        inspect(bytes);
    }
    Step::Moved(n as u64)
}

/// Accounts for `n` zeros that the sink has as a hole. They are shown when more follows, or at the end: should the hole be
/// the last thing there, it may yet turn out that it cannot be.
fn left_as_hole(route: &mut Route<'_>, n: usize) -> Step {
    let bytes = route.buffer.consume(n);
    route.records.accepted(bytes);
    route.uninspected_zeros += n as u64;
    Step::Moved(n as u64)
}
