//! Write-back of a file to its disk.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Begins to write the dirty pages of a file to its disk, and does not wait for it.
///
/// Does nothing for a file that has no disk.
///
/// # Errors
///
/// Those of `sync_file_range(2)`. A write that fails later is left to `fsync(2)`, `syncfs(2)` or
/// `close(2)`.
pub(crate) fn begin_write_back(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes no pointers. A length of 0 reaches to the end of the file.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
