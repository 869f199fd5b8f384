//! `sendfile(2)`: from a file or device to a pipe, a socket or a character device.

use crate::call_error::CallError;
use crate::copy_state::{CopyState, StepBudget};
use crate::side::Side;
use crate::step::{Step, reserved, splice::is_unsupported};
use crate::sys::{Errno, Kernel};

/// Less than 1 MiB costs throughput on sockets; much more and one call, even a non-blocking one,
/// can run for seconds while the peer keeps draining (M. Kellermann on LKML, September 2023: 10.7
/// s).
const BOUND: u64 = 4 << 20;

/// Moves up to 4 MiB from a file to a pipe, socket or device.
///
/// It never goes to a file: the call has no offset for its sink, and stores the cursor over what others have done to it.
/// A short count is normal. The source must have a page cache or a `splice_read` of its own:
/// regular files, block and memory devices, some of `/proc`. The sink can be anything that takes a
/// write, except in append mode.
///
/// # Errors
///
/// [`Step::Unsupported`], with nothing moved, on
/// - `EINVAL`: the source is a pipe, socket or terminal, or one of the files in `/proc` without
///   `splice_read`; or the sink appends, or is `/dev/full`, whose `ENOSPC` only a write shows;
/// - `ENOSYS`, `EPERM`, `EOPNOTSUPP`, `EXDEV`, `EBADF`: a seccomp filter or a file system that does
///   not do it;
/// - `EOVERFLOW`: the range ends past the largest offset; `buffered` moves what still fits.
///
/// Every other errno is final once bytes have moved.
///
/// # Kernel notes
///
/// The source's `O_NONBLOCK` is ignored, so that `EAGAIN` always means the sink. A 0 before the
/// expected end means that the source was truncated; the engine confirms it by a read. Into a pipe
/// or socket the page cache's own pages are passed: see the crate's words on page sharing.
///
/// # References
/// - [sendfile(2)](https://man7.org/linux/man-pages/man2/sendfile.2.html)
pub(super) fn step<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    if state.sink.info.is_seekable() {
        return Ok(Step::Unsupported(Errno::SPIPE.into()));
    }
    let len = budget.len(state, BOUND);
    let sent = reserved::pass(kernel, state, len, |state, len| {
        kernel.sendfile(state.sink.fd, state.source.at(), len)
    });
    match sent {
        Ok(step) => Ok(step),
        Err(Errno::AGAIN) => Ok(Step::Blocked(Side::Sink)),
        Err(errno) if is_unsupported(errno) => Ok(Step::Unsupported(errno.into())),
        Err(errno) => Err(CallError::new("sendfile", Side::Neither, errno)),
    }
}
