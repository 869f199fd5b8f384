//! Locks of single bytes of a file, which end with the process.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Locks a byte of a file for as long as the file is open. Returns false if another opening of the
/// file holds the lock.
///
/// The lock belongs to the open file description, so that it ends with the process in any case.
///
/// # Errors
///
/// Returns the error of `fcntl(2)`, except that the byte is locked.
pub fn lock_byte(file: BorrowedFd<'_>, offset: i32) -> io::Result<bool> {
    let mut lock = lock_of_byte(offset);
    // SAFETY: the struct outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            error => Err(error),
        },
    }
}

/// Returns whether another opening of the file holds the lock of this byte.
///
/// # Errors
///
/// Returns the error of `fcntl(2)`.
pub fn is_byte_locked(file: BorrowedFd<'_>, offset: i32) -> io::Result<bool> {
    let mut lock = lock_of_byte(offset);
    // SAFETY: the struct outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) } {
        0 => Ok(lock.l_type != libc::F_UNLCK as libc::c_short),
        _ => Err(io::Error::last_os_error()),
    }
}

fn lock_of_byte(offset: i32) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: offset.into(),
        l_len: 1,
        l_pid: 0,
    }
}
