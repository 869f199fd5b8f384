//! A whole file, cloned by one call before there is a plan or an engine.

use std::os::fd::BorrowedFd;

use crate::report::{Attempt, Report};
use crate::strategy::Strategy;
use crate::sys::{FileType, Kernel};

/// Clones a whole file into an empty one, if that is all that is wanted: [`Reflink::Always`], and both from their beginnings.
///
/// None if more is wanted, or the kernel refuses. Then nothing has been done, or what an engine finds done.
///
/// # Kernel notes
///
/// Of the flags nothing needs to be known: `FICLONE` refuses what is open the wrong way, or to append to, with `EBADF`. The sink has to
/// be empty: of a source that has become shorter, or of a clone that was cut off (openzfs#15728), a longer sink shows nothing.
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
    // A source that claims to be empty may hold anything.
    if !are_files || from.size == 0 || to.size > 0 {
        return None;
    }
    kernel.clone_file(source, sink).ok()?;
    let cloned = kernel.fstat(sink).ok()?.size;
    // The source may have changed since it was looked at, and then an engine tells what there is to tell.
    (cloned == from.size).then(|| {
        Report::of(Attempt {
            bytes: cloned,
            calls: 1,
            ..Attempt::new(Strategy::Reflink)
        })
    })
}
