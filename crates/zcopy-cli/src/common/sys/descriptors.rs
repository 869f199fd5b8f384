//! Standard descriptors, limits of descriptors, and errors of `close(2)`.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd};

/// Opens a placeholder in place of each closed standard input or output, so that no later open gets
/// its number. Reads and writes of it fail with `EBADF`, as those of a closed descriptor do.
///
/// # Errors
///
/// Returns the error of `open(2)`.
pub fn hold_closed_descriptors() -> io::Result<()> {
    use rustix::fs::{Mode, OFlags};
    for fd in [rustix::stdio::stdin(), rustix::stdio::stdout()] {
        if rustix::io::fcntl_getfd(fd) == Err(rustix::io::Errno::BADF) {
            // `open(2)` returns the lowest free number, which is this one.
            let stand_in = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            let _ = stand_in.into_raw_fd();
        }
    }
    Ok(())
}

/// Raises the limit of open descriptors to the maximum: command lines may name, and trees may need,
/// more than the usual 1024.
pub fn allow_descriptors() {
    use rustix::process::{Resource, Rlimit};
    let Some(limits) = descriptor_limits() else {
        return;
    };
    let most = (limits.rlim_max != libc::RLIM_INFINITY).then_some(limits.rlim_max);
    let wanted = Rlimit {
        current: most,
        maximum: most,
    };
    // If this fails, opening one too many reports the error.
    let _ = rustix::process::setrlimit(Resource::Nofile, wanted);
}

/// Returns the limit of open descriptors, or the usual 1024 if the kernel does not tell.
pub(crate) fn most_descriptors() -> usize {
    let limit = descriptor_limits().map_or(1024, |limits| limits.rlim_cur);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Returns `RLIMIT_NOFILE`, or `None` if a seccomp filter refuses the call, which rustix expects to
/// succeed.
fn descriptor_limits() -> Option<libc::rlimit> {
    let mut limits = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call fills the struct that it is given.
    let answer = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) };
    (answer == 0).then_some(limits)
}

/// Checks that a descriptor is open.
///
/// # Errors
///
/// Returns `EBADF` if the descriptor is closed or a placeholder.
pub fn check_open(fd: BorrowedFd<'_>) -> io::Result<()> {
    if rustix::fs::fcntl_getfl(fd)?.contains(rustix::fs::OFlags::PATH) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    Ok(())
}

/// Duplicates a descriptor that this process inherited, above the standard ones. Child processes
/// inherit neither.
///
/// # Errors
///
/// Returns `EBADF` if the descriptor is closed.
pub(crate) fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: neither call touches memory.
    let own = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if own == -1 {
        return Err(io::Error::last_os_error());
    }
    if fd > libc::STDERR_FILENO {
        // SAFETY: as above.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: the descriptor is new, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(own) })
}

/// Closes a file that has been written to.
///
/// # Errors
///
/// Returns the error of `close(2)`, which dropping the file would ignore. On a network file system
/// it may be the first report of a failed write. The file is closed in any case.
pub fn close_file(file: OwnedFd) -> io::Result<()> {
    // SAFETY: the owner has just let go of it.
    unsafe { close(file.into_raw_fd()) }
}

/// Closes standard input. Nothing may read it afterwards.
///
/// # Errors
///
/// Returns the error of `close(2)`, by which some file systems report the failure of an earlier
/// call.
pub(crate) fn close_stdin() -> io::Result<()> {
    // SAFETY: no value owns a standard descriptor, and the tools use none after this.
    unsafe { close(libc::STDIN_FILENO) }
}

/// Closes standard output. Nothing may write to it afterwards.
///
/// # Errors
///
/// Returns the error of `close(2)`. On a network file system it may be the first report of a failed
/// write.
pub(crate) fn close_stdout() -> io::Result<()> {
    // SAFETY: no value owns a standard descriptor, and the tools use none after this.
    unsafe { close(libc::STDOUT_FILENO) }
}

/// Closes a descriptor.
///
/// # Safety
///
/// No value may own the descriptor, and no code may use it afterwards.
pub(super) unsafe fn close(fd: RawFd) -> io::Result<()> {
    // SAFETY: the call takes no pointers; the caller vouches for the descriptor.
    match unsafe { libc::close(fd) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
