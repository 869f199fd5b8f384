//! `tee(2)`: from one pipe to another, without taking anything away.

use std::os::fd::BorrowedFd;

use crate::call_error::CallError;
use crate::side::Side;
use crate::step::Step;
use crate::step::splice::{flags, is_unsupported};
use crate::sys::{Blocking, Errno, Kernel};

/// Shares up to `len` bytes at the head of one pipe with another pipe.
///
/// A short count is normal: the other pipe takes as many of the source's slots as it has free,
/// however little is in each. The bytes stay where they are, so that the next call begins with the
/// same ones: until those that were shared have been taken out, no more can be shared with the same
/// sink.
///
/// # Errors
///
/// [`Step::Unsupported`], with nothing shared, on
/// - `EINVAL`: one of the two is no pipe, or they are the same;
/// - `ENOSYS`, `EPERM` and their kin: a seccomp filter.
///
/// Every other errno speaks of the sink: reading a pipe cannot fail.
///
/// # Kernel notes
///
/// 0 says that the source holds nothing and nobody will write to it. Like a splice it raises
/// `SIGPIPE` for a sink whose reader has gone even then, so that whoever calls makes sure first that
/// there are bytes.
///
/// # References
/// - [tee(2)](https://man7.org/linux/man-pages/man2/tee.2.html)
pub(crate) fn share<K: Kernel>(
    kernel: &K,
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
    len: u64,
    blocking: Blocking,
) -> Result<Step, CallError> {
    match kernel.tee(source, sink, len as usize, flags(blocking)) {
        Ok(0) => Ok(Step::Eof),
        Ok(n) => Ok(Step::Moved(n as u64)),
        Err(Errno::INTR) => Ok(Step::Interrupted),
        Err(Errno::AGAIN) => Ok(Step::Blocked(Side::Sink)),
        Err(errno) if is_unsupported(errno) => Ok(Step::Unsupported(errno.into())),
        Err(errno) => Err(CallError::new("tee", Side::Sink, errno)),
    }
}
