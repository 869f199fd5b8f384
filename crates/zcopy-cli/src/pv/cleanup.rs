//! Changes of a run that outlive it: a pidfile, and the `O_DIRECT` flag of files.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FileType, OFlags};
use zcopy::Side;

use crate::common::sys;
use crate::pv::transfer::pidfile::Pidfile;

/// The changes of a run that outlive it. Dropping this reverts those that have not been reverted.
#[derive(Debug)]
pub(crate) struct Cleanup {
    pidfile: Option<Pidfile>,
    direct: Mutex<Vec<DirectFile>>,
}

impl Cleanup {
    /// Creates a `Cleanup` with a pidfile that exists, and no other change.
    pub(crate) fn new(pidfile: Option<Pidfile>) -> Self {
        Self {
            pidfile,
            direct: Mutex::default(),
        }
    }

    /// Sets `O_DIRECT` on these files, if their file systems support it, until the returned value
    /// is dropped.
    pub(crate) fn direct(&self, input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> DirectFlags<'_> {
        for (fd, side) in [(input, Side::Source), (output, Side::Sink)] {
            self.lock().extend(DirectFile::set(fd, side));
        }
        DirectFlags(self)
    }

    /// Reverts everything just before the process exits. A later change by another thread blocks
    /// for ever.
    pub(crate) fn restore_at_exit(&self) {
        if let Some(pidfile) = &self.pidfile {
            pidfile.remove();
        }
        let mut direct = self.lock();
        direct.clear();
        std::mem::forget(direct);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<DirectFile>> {
        self.direct.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The `O_DIRECT` flags that are removed when this is dropped.
#[derive(Debug)]
pub(crate) struct DirectFlags<'a>(&'a Cleanup);

impl DirectFlags<'_> {
    /// Removes the flags.
    ///
    /// # Errors
    ///
    /// Returns the error of `close(2)` for the output. On a network file system it may be the only
    /// report of a failed write: a later `close(2)` of another descriptor reports no error.
    pub(crate) fn restore(self) -> io::Result<()> {
        let mut outcome = Ok(());
        for direct in self.0.lock().drain(..) {
            outcome = outcome.and(direct.close());
        }
        outcome
    }
}

impl Drop for DirectFlags<'_> {
    fn drop(&mut self) {
        self.0.lock().clear();
    }
}

/// A file with `O_DIRECT`, which is removed when this is dropped.
///
/// The flag belongs to the open file description, which other processes may share.
#[derive(Debug)]
struct DirectFile {
    /// `None` after it has been closed.
    fd: Option<OwnedFd>,
    before: OFlags,
    side: Side,
}

impl DirectFile {
    /// Sets the flag. Returns `None` if it is set already, or if the file system does not support
    /// it.
    fn set(fd: BorrowedFd<'_>, side: Side) -> Option<Self> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(fd).ok()?.st_mode);
        // `O_DIRECT` cuts a pipe into packets. The reader loses the rest of a packet that it reads
        // in part.
        let is_on_disk = matches!(kind, FileType::RegularFile | FileType::BlockDevice);
        let before = rustix::fs::fcntl_getfl(fd).ok()?;
        if !is_on_disk || before.contains(OFlags::DIRECT) {
            return None;
        }
        // This shares the open file description, so that another thread can remove the flag.
        let fd = fd.try_clone_to_owned().ok()?;
        rustix::fs::fcntl_setfl(&fd, before | OFlags::DIRECT).ok()?;
        Some(Self {
            fd: Some(fd),
            before,
            side,
        })
    }

    /// Removes the flag, and closes the descriptor.
    ///
    /// # Errors
    ///
    /// Returns the error of `close(2)` for the output. Closing an input loses no bytes.
    fn close(mut self) -> io::Result<()> {
        let closed = self.restore().map_or(Ok(()), sys::close_file);
        match self.side {
            Side::Sink => closed,
            _ => Ok(()),
        }
    }

    /// Removes the flag.
    fn restore(&mut self) -> Option<OwnedFd> {
        let fd = self.fd.take()?;
        // It could be set, so it can be removed.
        let _ = rustix::fs::fcntl_setfl(fd.as_fd(), self.before);
        Some(fd)
    }
}

impl Drop for DirectFile {
    fn drop(&mut self) {
        self.restore();
    }
}
