//! One run at a time for each destination.
//!
//! Records, journals and the files themselves can only be held against each other as long as nobody
//! else changes them by the same rules. A second run therefore waits for the first.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// What a run says while it waits.
pub(super) const WAITING: &str = "waiting for another run to end";

/// Holds the lock of a destination until it is dropped.
#[derive(Debug)]
pub(super) struct RunLock {
    _directory: Option<OwnedFd>,
}

impl RunLock {
    /// Locks the root of the destination. Calls `on_wait` before it waits for another run that has
    /// locked it. A file system without locks has none, and runs there are not to be started at the
    /// same time.
    ///
    /// # Errors
    ///
    /// The root cannot be opened.
    ///
    /// # Kernel notes
    ///
    /// `flock(2)` of a directory. The kernel gives the lock back when the process ends.
    pub(super) fn acquire(root: BorrowedFd<'_>, on_wait: impl FnOnce()) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(root, c".", flags, Mode::empty())?;
        let mut locked = rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(Errno::WOULDBLOCK) {
            on_wait();
            let lock = || rustix::fs::flock(&directory, FlockOperation::LockExclusive);
            locked = rustix::io::retry_on_intr(lock);
        }
        let directory = locked.is_ok().then_some(directory);
        Ok(Self {
            _directory: directory,
        })
    }
}
