//! `splice(2)` where one end is a pipe already.

use crate::call_error::CallError;
use crate::copy_state::{CopyState, StepBudget};
use crate::fd_info::Kind;
use crate::side::Side;
use crate::step::{Step, reserved};
use crate::sys::{Blocking, Errno, Kernel, SpliceFlags};

/// No pipe of an unprivileged user holds more in full pages; slots of several pages may.
const BOUND: u64 = 4 << 20;

/// Moves up to 4 MiB out of a pipe, or into one, or between two.
///
/// A short count is normal: a pipe has slots, not bytes, and is full when every slot is used,
/// however little is in each.
///
/// # Errors
///
/// [`Step::Unsupported`], with nothing moved, on
/// - `EINVAL`: neither end is a pipe, or the other end takes no splice: an appending file,
///   `/dev/full`, a device;
/// - `ENOSYS`, `EPERM`, `EOPNOTSUPP`, `EXDEV`, `EBADF`: a seccomp filter or a file system that does
///   not do it;
/// - `EOVERFLOW`: the range ends past the largest offset; `buffered` moves what still fits.
///
/// Every other errno is final once bytes have moved, and speaks of the end that is not a pipe; of
/// two pipes only the sink can fail. `ESPIPE` is never asked for: the engine refuses offsets on
/// pipes.
///
/// # Kernel notes
///
/// Into a pipe whose readers have gone it fails with `EPIPE`, and raises `SIGPIPE`, even at the end of
/// the source, where there is nothing to write: so the plan does not take it from a stream to a pipe,
/// and of a file the engine knows the end (`an_empty_source_does_not_blame_a_closed_pipe`).
///
/// `EAGAIN` does not say which side. `SPLICE_F_NONBLOCK` speaks of the pipes alone: a socket or
/// terminal obeys its own `O_NONBLOCK`. `SPLICE_F_MOVE` has done nothing since 2.6.21;
/// `SPLICE_F_MORE` delays the tail of a burst by up to 200 ms. Neither is used.
///
/// # References
/// - [splice(2)](https://man7.org/linux/man-pages/man2/splice.2.html)
pub(super) fn step<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    if state.sink.goes_by_cursor() {
        // Nothing can be reserved for bytes that may never come.
        return Ok(Step::Unsupported(Errno::SPIPE.into()));
    }
    let flags = flags(budget.blocking);
    let len = budget.len(state, BOUND);
    let spliced = reserved::pass(kernel, state, len, |state, len| {
        kernel.splice(state.source.at(), state.sink.at(), len, flags)
    });
    match spliced {
        Ok(step) => Ok(step),
        Err(Errno::AGAIN) => Ok(Step::Blocked(blocked_side(state))),
        Err(errno) if is_unsupported(errno) => Ok(Step::Unsupported(errno.into())),
        Err(errno) => Err(CallError::new("splice", failing_side(state, errno), errno)),
    }
}

/// A file is always ready, so that the pipe is not.
fn blocked_side(state: &CopyState<'_>) -> Side {
    if state.source.info.is_seekable() {
        Side::Sink
    } else if state.sink.info.is_seekable() {
        Side::Source
    } else {
        Side::Neither
    }
}

/// Reading a pipe cannot fail; of a pipe that is written to, `EPIPE` says that its readers have
/// gone.
fn failing_side(state: &CopyState<'_>, errno: Errno) -> Side {
    if state.source.info.kind == Kind::Pipe || errno == Errno::PIPE {
        Side::Sink
    } else {
        Side::Source
    }
}

/// How a call is told not to wait, where it is a pipe that it would wait for.
pub(super) fn flags(blocking: Blocking) -> SpliceFlags {
    match blocking {
        Blocking::MaySleep => SpliceFlags::empty(),
        Blocking::Nonblocking => SpliceFlags::NONBLOCK,
    }
}

/// Shared with the private pipe, which makes the same call, and with `sendfile`, which is one inside
/// the kernel.
pub(super) fn is_unsupported(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::INVAL
            | Errno::NOSYS
            | Errno::PERM
            | Errno::OPNOTSUPP
            | Errno::XDEV
            | Errno::BADF
            | Errno::OVERFLOW
    )
}
