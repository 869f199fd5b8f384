//! Clones a whole file by one call, without a plan or an engine.

use std::os::fd::BorrowedFd;

use crate::report::{Attempt, Report};
use crate::strategy::Strategy;
use crate::sys::{FileType, Kernel};

/// Clones a whole file into an empty one.
///
/// On `None` the sink is empty or already cloned; the engine handles both.
///
/// # Kernel notes
///
/// The flags need not be read: `FICLONE` fails with `EBADF` if a descriptor has the wrong access
/// mode, or if the sink appends. The sink has to be empty, because only the size of the sink shows
/// that the source became shorter or that the clone was truncated (openzfs#15728).
///
/// # References
/// - [ioctl_ficlone(2)](https://man7.org/linux/man-pages/man2/ioctl_ficlone.2.html)
pub(super) fn clone_whole_file<K: Kernel>(
    kernel: &K,
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
) -> Option<Report> {
    let (from, to) = (kernel.fstat(source).ok()?, kernel.fstat(sink).ok()?);
    let are_files = [from, to].map(|status| status.file_type) == [FileType::RegularFile; 2];
    // A source that claims size 0 may have bytes, as files in `/proc` do.
    if !are_files || from.size == 0 || to.size > 0 {
        return None;
    }
    kernel.clone_file(source, sink).ok()?;
    let cloned = kernel.fstat(sink).ok()?.size;
    // If the source changed meanwhile, an engine moves the rest or reports the error.
    (cloned == from.size).then(|| {
        Report::of(Attempt {
            bytes: cloned,
            calls: 1,
            ..Attempt::new(Strategy::Reflink)
        })
    })
}
