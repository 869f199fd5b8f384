//! `copy_file_range(2)`: the file system copies between two of its files.
//!
//! A step moves up to 64 MiB between two regular files of one file system. A short count is normal.
//! The file system may share blocks instead of copying them, and never reports which it did.
//!
//! | errno | meaning | next |
//! |---|---|---|
//! | `EXDEV`, `EINVAL`, `EOPNOTSUPP`, `ENOSYS` | this pair of files has no such copy | refused |
//! | `EPERM` | a seccomp filter, or an immutable sink | refused |
//! | `EBADF` | the sink appends, or a descriptor is bad | refused |
//! | `EOVERFLOW`, `EFBIG` | the range ends past the largest offset | refused |
//! | `EINTR` | a signal arrived | repeated |
//! | any other | an error of either side | fails |
//! | returns 0 | the end of the source, or a file that hides its size | confirmed by a read |
//!
//! `buffered` tells apart the cases that share an errno: its write fails on an immutable sink, its
//! read on a bad descriptor, and it moves what still fits below the largest offset.
//!
//! # Kernel notes
//!
//! - Network file systems may return `EOPNOTSUPP` and its like after progress, so that these errnos
//!   are never final ([rust-lang/rust#91152](https://github.com/rust-lang/rust/issues/91152)).
//! - `EPERM` of a seccomp filter: [golang/go#40893](https://github.com/golang/go/issues/40893).
//! - `EBADF` of a sink in append mode:
//!   [rust-lang/rust#82410](https://github.com/rust-lang/rust/issues/82410).
//! - Linux 6.17 returns `EFBIG` without reason near the largest offset (gnulib,
//!   `copy-file-data.c`).
//! - A first 0 does not prove the end of the file: files in `/proc` claim size 0
//!   ([LWN](https://lwn.net/Articles/846403/)).
//! - Kernels before 5.19 are unreliable across file systems, so that the plan never asks for that.
//! - One call can run for very long and cannot be watched meanwhile
//!   ([systemd#13091](https://github.com/systemd/systemd/issues/13091)).
//!
//! Manual: [copy_file_range(2)](https://man7.org/linux/man-pages/man2/copy_file_range.2.html).

use crate::call_error::CallError;
use crate::copy_state::{CopyState, StepBudget};
use crate::side::Side;
use crate::step::{self, Step};
use crate::sys::{Errno, Kernel};

/// The longest call in bytes: it cannot be watched or stopped while it runs.
const MAX_CALL: u64 = 64 << 20;

/// Copies up to 64 MiB with one call.
pub(super) fn step<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    let len = budget.len(state, MAX_CALL);
    let copied = step::move_reserved(kernel, state, len, |state, len| {
        kernel.copy_file_range(state.source.fd_at(), state.sink.fd_at(), len)
    });
    copied.or_else(|errno| match errno {
        Errno::INTR => Ok(Step::Repeat),
        Errno::XDEV
        | Errno::INVAL
        | Errno::OPNOTSUPP
        | Errno::NOSYS
        | Errno::PERM
        | Errno::BADF
        | Errno::OVERFLOW
        | Errno::FBIG => Ok(Step::Unsupported(errno.into())),
        _ => Err(CallError::new("copy_file_range", Side::Neither, errno)),
    })
}
