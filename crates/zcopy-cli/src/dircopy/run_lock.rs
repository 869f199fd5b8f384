//! One run at a time for each destination.
//!
//! Records, journals and the files themselves can only be held against each other as long as nobody
//! else changes them by the same rules. A second run therefore waits for the first.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// What a run says while it waits.
pub(super) const WAITING: &str = "waiting for another run to end";

/// The lock of a destination.
#[derive(Debug)]
pub(super) struct RunLock {
    /// The lock belongs to the open root, and is given back when the last of those closes it who share it.
    _directory: Arc<OwnedFd>,
}

impl RunLock {
    /// Locks the root of the destination. Calls `on_wait` before it waits for another run that has
    /// locked it. A file system without locks has none, and runs there are not to be started at the
    /// same time.
    ///
    /// # Kernel notes
    ///
    /// `flock(2)` of a directory. The kernel gives the lock back when the process ends.
    pub(super) fn acquire(root: &Arc<OwnedFd>, on_wait: impl FnOnce()) -> Self {
        let locked = rustix::fs::flock(root, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(Errno::WOULDBLOCK) {
            on_wait();
            let lock = || rustix::fs::flock(root, FlockOperation::LockExclusive);
            // There are no locks after all.
            let _ = rustix::io::retry_on_intr(lock);
        }
        Self {
            _directory: Arc::clone(root),
        }
    }
}
