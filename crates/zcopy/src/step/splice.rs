//! `splice(2)` between a pipe of the caller's and another descriptor.
//!
//! A step moves up to 4 MiB out of a pipe, into a pipe, or between two pipes. A short count is
//! normal: a pipe has slots, not bytes, and is full when every slot is used, however little each
//! one holds. A sink that is a file at its cursor is refused without a call, because no range can
//! be reserved for bytes that may never come.
//!
//! | errno | meaning | next |
//! |---|---|---|
//! | `EINVAL` | no end is a pipe, or the other end takes no splice | refused |
//! | `ENOSYS`, `EPERM`, `EOPNOTSUPP`, `EXDEV`, `EBADF` | seccomp, or the file system | refused |
//! | `EOVERFLOW` | the range ends past the largest offset | refused |
//! | `EAGAIN` | the pipe is not ready if the other end is a file; otherwise either end | waits |
//! | `EINTR` | a signal arrived | repeated |
//! | any other | an error of the end that is not a pipe; between two pipes, of the sink | fails |
//! | returns 0 between two pipes | the end of the source | the transfer ends |
//! | returns 0 otherwise | the end, an urgent mark, or a sink that is full | confirmed by a read |
//!
//! A file in append mode, `/dev/full` and many devices take no splice. `buffered` moves what still
//! fits below the largest offset. `ESPIPE` cannot occur, because the engine refuses offsets on
//! pipes.
//!
//! # Kernel notes
//!
//! - Into a pipe whose readers have gone, the call fails with `EPIPE` and raises `SIGPIPE` even at
//!   the end of the source, where there is nothing to write. The plan therefore never takes it from
//!   a stream to a pipe, and the engine does not call it at the known end of a file
//!   (`an_empty_source_does_not_blame_a_closed_pipe`).
//! - `EAGAIN` does not say which side is not ready. `SPLICE_F_NONBLOCK` concerns pipes alone: a
//!   socket or terminal obeys its own `O_NONBLOCK`.
//! - `SPLICE_F_MOVE` has done nothing since Linux 2.6.21, and `SPLICE_F_MORE` delays the tail of a
//!   burst by up to 200 ms. The step uses neither.
//!
//! Manual: [splice(2)](https://man7.org/linux/man-pages/man2/splice.2.html).

use crate::call_error::CallError;
use crate::copy_state::{CopyState, StepBudget};
use crate::fd_info::Kind;
use crate::side::Side;
use crate::step::{self, Step};
use crate::sys::{Blocking, Errno, Kernel, SpliceFlags};

/// The longest call in bytes. A pipe of an unprivileged user holds no more in full pages; a pipe
/// whose slots span several pages may.
const MAX_CALL: u64 = 4 << 20;

/// Splices up to 4 MiB with one call.
pub(super) fn step<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    if state.sink.goes_by_cursor() {
        return Ok(Step::Unsupported(Errno::SPIPE.into()));
    }
    let flags = flags(budget.blocking);
    let len = budget.len(state, MAX_CALL);
    let spliced = step::move_reserved(kernel, state, len, |state, len| {
        kernel.splice(state.source.fd_at(), state.sink.fd_at(), len, flags)
    });
    spliced.or_else(|errno| {
        let (blocked, failing) = (blocked_side(state), failing_side(state, errno));
        on_errno("splice", blocked, failing, errno)
    })
}

/// Returns the side that `EAGAIN` means: opposite a file, which is always ready, the pipe. `None`
/// if it can mean either side.
fn blocked_side(state: &CopyState<'_>) -> Option<Side> {
    if state.source.info.is_seekable() {
        Some(Side::Sink)
    } else if state.sink.info.is_seekable() {
        Some(Side::Source)
    } else {
        None
    }
}

/// Returns the side that an errno means. Reading from a pipe cannot fail, and `EPIPE` means that
/// the readers of the sink have gone.
fn failing_side(state: &CopyState<'_>, errno: Errno) -> Side {
    if state.source.info.kind == Kind::Pipe || errno == Errno::PIPE {
        Side::Sink
    } else {
        Side::Source
    }
}

/// Returns the flags of a call that must not sleep on a pipe, if `blocking` says so.
pub(super) fn flags(blocking: Blocking) -> SpliceFlags {
    match blocking {
        Blocking::MaySleep => SpliceFlags::empty(),
        Blocking::Nonblocking => SpliceFlags::NONBLOCK,
    }
}

/// Returns the result of a step whose call failed: `splice(2)`, `tee(2)`, or `sendfile(2)`, which
/// splices inside the kernel. `EAGAIN` means the `blocked` side, and an error the `failing` side.
pub(super) fn on_errno(
    call: &'static str,
    blocked: Option<Side>,
    failing: Side,
    errno: Errno,
) -> Result<Step, CallError> {
    match errno {
        Errno::INTR => Ok(Step::Repeat),
        Errno::AGAIN => Ok(Step::Blocked(blocked)),
        Errno::INVAL
        | Errno::NOSYS
        | Errno::PERM
        | Errno::OPNOTSUPP
        | Errno::XDEV
        | Errno::BADF
        | Errno::OVERFLOW => Ok(Step::Unsupported(errno.into())),
        _ => Err(CallError::new(call, failing, errno)),
    }
}
