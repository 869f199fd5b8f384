//! One read or one write, of whole blocks where `O_DIRECT` requires them. With
//! [`Blocking::Nonblocking`] it does not sleep where another process decides for how long.

use crate::call_error::{CallError, Cause};
use crate::endpoint::Endpoint;
use crate::fd_info::Kind;
use crate::reopened::Reopened;
use crate::side::Side;
use crate::step::{Step, block_batch};
use crate::sys::{Blocking, Errno, Kernel, Result as Called, Spare};

/// Bytes that a pipe accepts without sleeping if it polls as writable.
const PIPE_BUF: usize = 4096;

/// Bytes that a pseudo-terminal accepts without sleeping if it polls as writable: the granularity
/// of its allocations (`tty_buffer_alloc`). Serial lines promise no more than a byte.
const TERMINAL_GRANULARITY: usize = 256;

/// Reads once into `room`.
///
/// # Errors
///
/// `EMSGSIZE` if the next message is longer than `room`; it stays in the source.
pub(crate) fn read_once<K: Kernel>(
    kernel: &K,
    source: &mut Endpoint<'_>,
    reopened: &mut Reopened,
    room: &mut [u8],
    blocking: Blocking,
) -> Result<Step, CallError> {
    if source.info.kind == Kind::Datagram {
        match kernel.next_datagram(source.fd, blocking) {
            Ok(len) if len > room.len() => {
                return Err(CallError::new("recv", Side::Source, Errno::MSGSIZE));
            }
            Ok(_) => {}
            Err(errno) => return on_errno("recv", Side::Source, errno),
        }
    }
    // The bytes behind a reservation belong to other readers.
    let len = source.clamp(room.len() as u64).max(1) as usize;
    let room = &mut room[..len];
    match read(kernel, source, Some(reopened), room.into(), blocking) {
        Ok(0) => end_of_file(kernel, source),
        Ok(n) => {
            source.advance(n as u64);
            Ok(Step::Moved(n as u64))
        }
        Err(errno) => on_errno("read", Side::Source, errno),
    }
}

/// Returns the result of a step whose read returned 0. If bytes are reserved, the file has become
/// shorter: gives them back, so that a read at the cursor shows whether the file ends there.
pub(super) fn end_of_file<K: Kernel>(
    kernel: &K,
    source: &mut Endpoint<'_>,
) -> Result<Step, CallError> {
    if source.reserved() == 0 {
        return Ok(Step::Eof);
    }
    let unreserved = source.unreserve_all(kernel);
    unreserved.map_err(CallError::of_call("lseek", Side::Source))?;
    Ok(Step::Repeat)
}

/// Writes once, as many of these bytes as the sink accepts.
pub(crate) fn write_once<K: Kernel>(
    kernel: &K,
    sink: &mut Endpoint<'_>,
    reopened: &mut Reopened,
    bytes: &[u8],
    blocking: Blocking,
) -> Result<Step, CallError> {
    let bytes = &bytes[..sink.clamp(bytes.len() as u64).max(1) as usize];
    let mut once = |sink: &mut Endpoint<'_>| {
        if sink.info.direct {
            write_blocks(kernel, sink, reopened, bytes)
        } else {
            write(kernel, sink, bytes, blocking)
        }
    };
    let mut written = once(sink);
    if written == Err(Errno::SPIPE) && sink.give_up_offsets(kernel) {
        written = once(sink);
    }
    match written {
        Ok(0) => Err(CallError::new("write", Side::Sink, Cause::ReturnedZero)),
        Ok(n) => {
            sink.advance(n as u64);
            Ok(Step::Moved(n as u64))
        }
        Err(errno) => on_errno("write", Side::Sink, errno),
    }
}

/// Reads once. If the call must not sleep, it has `RWF_NOWAIT` where the kernel supports that,
/// because another reader may take the bytes between the poll and the read.
pub(super) fn read<K: Kernel>(
    kernel: &K,
    source: &mut Endpoint<'_>,
    reopened: Option<&mut Reopened>,
    room: Spare<'_>,
    blocking: Blocking,
) -> Called<usize> {
    let (fd, offset) = source.fd_at();
    if source.info.direct {
        let room = room.into_slice();
        let read = kernel.read(fd, offset, room, Blocking::MaySleep);
        return match (read, reopened) {
            // The position is not at a block, or the room is shorter than a block.
            (Err(Errno::INVAL), Some(reopened)) => reopened.read(kernel, source, room),
            (read, _) => read,
        };
    }
    if !needs_nowait(source, blocking) {
        return kernel.read_into(fd, offset, room);
    }
    let room = room.into_slice();
    match kernel.read(fd, offset, room, Blocking::Nonblocking) {
        Err(errno) if refuses_nowait(errno) => source.refuses_nowait = true,
        read => return read,
    }
    kernel.read(fd, offset, room, Blocking::MaySleep)
}

/// Writes once. If the call must not sleep and the sink refuses `RWF_NOWAIT`, writes only as many
/// bytes as a sink that polls as writable accepts without sleeping. A message is always written
/// whole.
fn write<K: Kernel>(
    kernel: &K,
    sink: &mut Endpoint<'_>,
    pending: &[u8],
    blocking: Blocking,
) -> Called<usize> {
    let (fd, offset) = sink.fd_at();
    if sink.more_follows && sink.info.kind == Kind::Stream {
        return kernel.send_more(fd, pending, blocking);
    }
    if needs_nowait(sink, blocking) {
        match kernel.write(fd, offset, pending, Blocking::Nonblocking) {
            Err(errno) if refuses_nowait(errno) => sink.refuses_nowait = true,
            written => return written,
        }
    }
    let can_sleep = blocking == Blocking::Nonblocking && !sink.info.nonblocking;
    let len = match sink.info.kind {
        Kind::Terminal if can_sleep => TERMINAL_GRANULARITY,
        Kind::Pipe | Kind::Stream | Kind::Other if can_sleep => PIPE_BUF,
        _ => pending.len(),
    };
    let piece = &pending[..pending.len().min(len)];
    kernel.write(fd, offset, piece, Blocking::MaySleep)
}

/// Writes once to a sink that is open with `O_DIRECT`: whole blocks, or the bytes before the first
/// block, or those after the last. Writes to the reopened file if the kernel refuses the call with
/// `EINVAL`.
fn write_blocks<K: Kernel>(
    kernel: &K,
    sink: &mut Endpoint<'_>,
    reopened: &mut Reopened,
    bytes: &[u8],
) -> Called<usize> {
    let granularity = reopened.granularity(kernel, sink);
    let in_block = block_batch::position(kernel, sink)? % granularity;
    let len = bytes.len() as u64;
    let piece = match in_block {
        0 if len >= granularity => len - len % granularity,
        0 => len,
        _ => len.min(granularity - in_block),
    };
    let bytes = &bytes[..piece as usize];
    let (fd, offset) = sink.fd_at();
    match kernel.write(fd, offset, bytes, Blocking::MaySleep) {
        Err(Errno::INVAL) => reopened.write(kernel, sink, bytes),
        written => written,
    }
}

/// Returns whether the call needs `RWF_NOWAIT`. A file does not: its calls never wait for another
/// process, and with the flag they would refuse to read pages that are not in memory.
fn needs_nowait(endpoint: &Endpoint<'_>, blocking: Blocking) -> bool {
    blocking == Blocking::Nonblocking && endpoint.info.can_block() && !endpoint.refuses_nowait
}

/// Returns whether the file, the kernel or a seccomp filter refused `RWF_NOWAIT`. The call without
/// the flag then returns the real error, if there is one.
fn refuses_nowait(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM)
}

/// Returns the result of a step whose call failed: waits, is repeated, or fails.
pub(crate) fn on_errno(call: &'static str, side: Side, errno: Errno) -> Result<Step, CallError> {
    match errno {
        Errno::INTR => Ok(Step::Repeat),
        Errno::AGAIN => Ok(Step::Blocked(Some(side))),
        errno => Err(CallError::new(call, side, errno)),
    }
}
