//! `tee(2)`: one pipe shares its bytes with another pipe, and keeps them.
//!
//! A call shares up to `len` bytes at the head of the source. A short count is normal: the sink
//! accepts as many slots as it has free, however little each one holds. The bytes stay at the head
//! of the source, and the next call begins with the same ones. Before more can be shared with the
//! same sink, the shared bytes must be taken out.
//!
//! | errno | meaning | next |
//! |---|---|---|
//! | `EINVAL` | one end is no pipe, or both ends are the same pipe | refused |
//! | the other refusals of [`splice`](crate::step::splice) | a seccomp filter | refused |
//! | `EAGAIN` | the sink is full (or the source is empty, which the caller excludes) | waits |
//! | `EINTR` | a signal arrived | repeated |
//! | any other | an error of the sink: reading from a pipe cannot fail | fails |
//! | returns 0, and the source holds bytes | another process has filled the sink | waits |
//! | returns 0 | the source is empty and has no writer | the source has ended |
//!
//! # Kernel notes
//!
//! Like `splice(2)`, the call raises `SIGPIPE` for a sink whose readers have gone even if the
//! source is empty. The caller therefore makes sure first that the source holds bytes.
//!
//! The call waits for room in the sink, and then locks both pipes. If another process has filled
//! the room in between, it returns 0, where `splice(2)` between pipes waits again.
//!
//! Manual: [tee(2)](https://man7.org/linux/man-pages/man2/tee.2.html).

use std::os::fd::BorrowedFd;

use crate::call_error::CallError;
use crate::side::Side;
use crate::step::Step;
use crate::step::splice::{flags, on_errno};
use crate::sys::{Blocking, Kernel};

/// Shares up to `len` bytes at the head of one pipe with another pipe.
pub(crate) fn duplicate<K: Kernel>(
    kernel: &K,
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
    len: u64,
    blocking: Blocking,
) -> Result<Step, CallError> {
    match kernel.tee(source, sink, len as usize, flags(blocking)) {
        Ok(0) if kernel.n_waiting(source).is_ok_and(|n| n > 0) => {
            Ok(Step::Blocked(Some(Side::Sink)))
        }
        Ok(0) => Ok(Step::Eof),
        Ok(n) => Ok(Step::Moved(n as u64)),
        Err(errno) => on_errno("tee", Some(Side::Sink), Side::Sink, errno),
    }
}
