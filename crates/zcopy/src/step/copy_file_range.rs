//! `copy_file_range(2)`: one file system copies between two of its files.

use crate::call_error::CallError;
use crate::copy_state::{CopyState, StepBudget};
use crate::side::Side;
use crate::step::{Step, reserved};
use crate::sys::{Errno, Kernel};

/// One call can run for very long and cannot be watched meanwhile (systemd#13091).
const BOUND: u64 = 64 << 20;

/// Moves up to 64 MiB between two regular files of one file system.
///
/// A short count is normal. The file system may share blocks instead of copying them, and never
/// says which.
///
/// # Errors
///
/// [`Step::Unsupported`], with nothing moved, on
/// - `EXDEV`, `EINVAL`, `EOPNOTSUPP`, `ENOSYS`: this pair cannot do it. Network file systems can
///   say so after progress (rust-lang/rust#91152), so that these are never final;
/// - `EPERM`: a seccomp filter or an immutable sink, which `buffered` tells apart
///   (golang/go#40893);
/// - `EBADF`: the sink appends (rust-lang/rust#82410). A bad descriptor fails again in `buffered`;
/// - `EOVERFLOW`, `EFBIG`: the range ends past the largest offset, or Linux 6.17 thinks so (gnulib
///   `copy-file-data.c`); `buffered` moves what still fits.
///
/// Every other errno is final once bytes have moved.
///
/// # Kernel notes
///
/// A first 0 does not prove end of file: files in `/proc` claim size 0
/// (<https://lwn.net/Articles/846403/>). The engine confirms every end of file by a read. Kernels
/// before 5.19 are unreliable across file systems, so that the plan never asks for that.
///
/// # References
/// - [copy_file_range(2)](https://man7.org/linux/man-pages/man2/copy_file_range.2.html)
pub(super) fn step<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    let len = budget.len(state, BOUND);
    let copied = reserved::pass(kernel, state, len, |state, len| {
        kernel.copy_file_range(state.source.at(), state.sink.at(), len)
    });
    match copied {
        Ok(step) => Ok(step),
        Err(errno) if is_unsupported(errno) => Ok(Step::Unsupported(errno.into())),
        Err(errno) => Err(CallError::new("copy_file_range", Side::Neither, errno)),
    }
}

fn is_unsupported(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::XDEV
            | Errno::INVAL
            | Errno::OPNOTSUPP
            | Errno::NOSYS
            | Errno::PERM
            | Errno::BADF
            | Errno::OVERFLOW
            | Errno::FBIG
    )
}
