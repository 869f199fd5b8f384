//! Files that are reached by a name in an open directory.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// A file that is reached by a name in an open directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    /// The directory.
    pub(crate) directory: BorrowedFd<'a>,
    /// The name in the directory.
    pub(crate) name: &'a CStr,
}

/// Opens a file with `O_PATH`, and returns a path through `/proc` that leads to it while it is
/// open.
pub(crate) fn hold(named: Named<'_>) -> Result<(OwnedFd, CString), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = rustix::fs::openat(named.directory, named.name, flags, Mode::empty())?;
    let path = through_proc(held.as_fd());
    Ok((held, path))
}

/// The path of an open file in `/proc`.
pub(crate) fn through_proc(fd: BorrowedFd<'_>) -> CString {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    // A number has no zero byte.
    CString::new(path).unwrap_or_default()
}
