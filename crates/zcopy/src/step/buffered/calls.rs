//! One read, or one write: told not to wait where somebody else decides how long that is, in whole blocks where `O_DIRECT`
//! asks for them.

use crate::call_error::{CallError, Cause};
use crate::endpoint::Endpoint;
use crate::fd_info::Kind;
use crate::reopened::Reopened;
use crate::side::Side;
use crate::step::{Step, block_batch};
use crate::sys::{Blocking, Errno, Kernel, Result as Called};

/// What a pipe that polls as writable takes without sleeping: `PIPE_BUF`.
const ATOMIC: usize = 4096;

/// What a pseudo-terminal that polls as writable takes without sleeping: the granularity in which it
/// allocates room (`tty_buffer_alloc`). Serial lines promise no more than a byte.
const TERMINAL_GRANULARITY: usize = 256;

/// Reads once into this room. A message that is longer than the room is refused with `EMSGSIZE` and stays in the source.
pub(crate) fn draw<K: Kernel>(
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
            Err(errno) => return stopped("recv", Side::Source, errno),
        }
    }
    // What lies behind a reservation belongs to others.
    let len = source.clamp(room.len() as u64).max(1) as usize;
    let room = &mut room[..len];
    match read(kernel, source, Some(reopened), room, blocking) {
        Ok(0) if source.reserved() > 0 => {
            // The file has become shorter. A read by the cursor says whether it ends there.
            let given_back = source.give_back_all(kernel);
            given_back.map_err(|errno| CallError::new("lseek", Side::Source, errno))?;
            Ok(Step::Interrupted)
        }
        Ok(0) => Ok(Step::Eof),
        Ok(n) => {
            source.advance(n as u64);
            Ok(Step::Moved(n as u64))
        }
        Err(errno) => stopped("read", Side::Source, errno),
    }
}

/// Writes once of these bytes.
pub(crate) fn pour<K: Kernel>(
    kernel: &K,
    sink: &mut Endpoint<'_>,
    reopened: &mut Reopened,
    bytes: &[u8],
    blocking: Blocking,
) -> Result<Step, CallError> {
    let bytes = &bytes[..sink.clamp(bytes.len() as u64).max(1) as usize];
    let written = if sink.info.direct {
        write_blocks(kernel, sink, reopened, bytes)
    } else {
        write(kernel, sink, bytes, blocking)
    };
    match written {
        Ok(0) => Err(CallError {
            call: "write",
            side: Side::Sink,
            cause: Cause::WriteZero,
        }),
        Ok(n) => {
            sink.advance(n as u64);
            Ok(Step::Moved(n as u64))
        }
        Err(errno) => stopped("write", Side::Sink, errno),
    }
}

/// Reads once. Between the poll and the read another reader may have taken the bytes, so that the call
/// is told not to wait where the kernel offers that.
pub(super) fn read<K: Kernel>(
    kernel: &K,
    source: &mut Endpoint<'_>,
    reopened: Option<&mut Reopened>,
    room: &mut [u8],
    blocking: Blocking,
) -> Called<usize> {
    let (fd, offset) = source.at();
    if source.info.direct {
        let read = kernel.read(fd, offset, room, Blocking::MaySleep);
        return match (read, reopened) {
            // It does not begin at a block, or there is no room for one.
            (Err(Errno::INVAL), Some(reopened)) => reopened.read(kernel, source, room),
            (read, _) => read,
        };
    }
    if must_be_told(source, blocking) {
        match kernel.read(fd, offset, room, Blocking::Nonblocking) {
            Err(errno) if knows_no_nowait(errno) => source.refuses_nowait = true,
            read => return read,
        }
    }
    kernel.read(fd, offset, room, Blocking::MaySleep)
}

/// Writes once, and a small piece if that is the only way not to sleep. A message has no pieces: it is
/// written whole or not at all.
fn write<K: Kernel>(
    kernel: &K,
    sink: &mut Endpoint<'_>,
    pending: &[u8],
    blocking: Blocking,
) -> Called<usize> {
    let (fd, offset) = sink.at();
    if must_be_told(sink, blocking) {
        match kernel.write(fd, offset, pending, Blocking::Nonblocking) {
            Err(errno) if knows_no_nowait(errno) => sink.refuses_nowait = true,
            written => return written,
        }
    }
    let can_sleep = blocking == Blocking::Nonblocking && !sink.info.nonblocking;
    let piece = match sink.info.kind {
        Kind::Terminal if can_sleep => TERMINAL_GRANULARITY,
        Kind::Pipe | Kind::Stream | Kind::Other if can_sleep => ATOMIC,
        _ => pending.len(),
    };
    kernel.write(
        fd,
        offset,
        &pending[..pending.len().min(piece)],
        Blocking::MaySleep,
    )
}

/// Writes once to a sink that is open with `O_DIRECT`: whole blocks as they are, and what the kernel refuses by
/// the reopened file. What comes before the first block and after the last goes alone.
fn write_blocks<K: Kernel>(
    kernel: &K,
    sink: &mut Endpoint<'_>,
    reopened: &mut Reopened,
    bytes: &[u8],
) -> Called<usize> {
    let granularity = reopened.granularity(kernel, sink);
    let odd = block_batch::place(kernel, sink)? % granularity;
    let len = bytes.len() as u64;
    let piece = match odd {
        0 if len >= granularity => len - len % granularity,
        0 => len,
        odd => len.min(granularity - odd),
    };
    let bytes = &bytes[..piece as usize];
    let (fd, offset) = sink.at();
    match kernel.write(fd, offset, bytes, Blocking::MaySleep) {
        Err(Errno::INVAL) => reopened.write(kernel, sink, bytes),
        written => written,
    }
}

/// A file never makes a call wait for somebody else, and asked not to wait it would refuse what is not in
/// memory.
fn must_be_told(endpoint: &Endpoint<'_>, blocking: Blocking) -> bool {
    blocking == Blocking::Nonblocking && endpoint.info.can_block() && !endpoint.refuses_nowait
}

/// Whether a call that must not wait was refused as such: by the file, by the kernel, or by a seccomp filter. The plain
/// call then speaks the truth.
fn knows_no_nowait(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM)
}

/// What an errno means here: wait, try again, or the end.
pub(crate) fn stopped(call: &'static str, side: Side, errno: Errno) -> Result<Step, CallError> {
    match errno {
        Errno::INTR => Ok(Step::Interrupted),
        Errno::AGAIN => Ok(Step::Blocked(side)),
        errno => Err(CallError::new(call, side, errno)),
    }
}
