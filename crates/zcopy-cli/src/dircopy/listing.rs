//! The names in a directory, as the kernel gives them.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;

/// How much is asked for at once, in bytes: a few hundred names.
const BLOCK: usize = 64 << 10;

/// Shows every name but `.` and `..`, from where the descriptor stands. Its type may be unknown.
///
/// # Errors
///
/// What `getdents64(2)` says. What was shown before then is good.
pub(super) fn each(
    directory: BorrowedFd<'_>,
    mut show: impl FnMut(&CStr, FileType),
) -> Result<(), Errno> {
    let mut block = Vec::with_capacity(BLOCK);
    let mut entries = RawDir::new(directory, block.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(Errno::INTR) => continue,
            // The directory has been removed: nothing is in it.
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            show(entry.file_name(), entry.file_type());
        }
    }
    Ok(())
}
