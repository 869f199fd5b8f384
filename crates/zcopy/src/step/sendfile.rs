//! `sendfile(2)`: from a file or device to a pipe, a socket or a character device.
//!
//! A step sends up to 4 MiB. A short count is normal. The source must have a page cache or a
//! `splice_read` operation: regular files, block and memory devices, some files of `/proc`. The
//! sink can be anything that accepts a write, except in append mode. A sink that is a file is
//! refused without a call, because `sendfile(2)` has no offset for its sink: it would store the
//! cursor over what other processes have done to it.
//!
//! | errno | meaning | next |
//! |---|---|---|
//! | `EINVAL` | the source has no `splice_read`; the sink appends or is `/dev/full` | refused |
//! | `ENOSYS`, `EPERM`, `EOPNOTSUPP`, `EXDEV`, `EBADF` | seccomp, or the file system | refused |
//! | `EOVERFLOW` | the range ends past the largest offset | refused |
//! | `EAGAIN` | the sink is full | waits |
//! | `EINTR` | a signal arrived | repeated |
//! | any other | an error of either side | fails |
//! | returns 0 | the end of the source, or the source was truncated | confirmed by a read |
//!
//! Pipes, sockets, terminals and some files of `/proc` have no `splice_read` for this call.
//! `buffered` moves what still fits below the largest offset, and its write shows the `ENOSPC` of
//! `/dev/full`.
//!
//! # Kernel notes
//!
//! - The kernel ignores `O_NONBLOCK` of the source, so that `EAGAIN` always means the sink.
//! - Less than 1 MiB costs throughput on sockets. A much longer call, even a non-blocking one, can
//!   run for seconds while the peer keeps draining: 10.7 s (M. Kellermann, LKML, September 2023).
//! - Before Linux 5.12 a blocking call into a pipe returns only when the pipe has taken all of it,
//!   so that no tick ends it. Shown by `promise_5_break_while_the_sink_is_full_takes_one_tick`.
//! - If a connection ends while the call sleeps, the call returns what it has sent, and the kernel
//!   forgets the errno (`ETIMEDOUT`, `ECONNRESET`): the next call fails with `EPIPE`. Shown by
//!   `a_connection_that_times_out_is_an_error_of_the_sink`.
//! - Pipes and sockets receive the pages of the page cache itself (docs/strategies.md, "Page
//!   sharing").
//!
//! Manual: [sendfile(2)](https://man7.org/linux/man-pages/man2/sendfile.2.html).

use crate::call_error::CallError;
use crate::copy_state::{CopyState, StepBudget};
use crate::side::Side;
use crate::step::{self, Step, splice};
use crate::sys::{Errno, Kernel};

/// The longest call in bytes, see the kernel notes.
const MAX_CALL: u64 = 4 << 20;

/// Sends up to 4 MiB with one call.
pub(super) fn step<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    if state.sink.info.is_seekable() {
        return Ok(Step::Unsupported(Errno::SPIPE.into()));
    }
    let len = budget.len(state, MAX_CALL);
    let sent = step::move_reserved(kernel, state, len, |state, len| {
        kernel.sendfile(state.sink.fd, state.source.fd_at(), len)
    });
    sent.or_else(|errno| splice::on_errno("sendfile", Some(Side::Sink), Side::Neither, errno))
}
