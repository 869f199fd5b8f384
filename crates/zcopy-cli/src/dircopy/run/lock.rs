//! A lock that lets one run at a time change a destination.
//!
//! A run compares the records, the journals and the files of the destination. A second run would
//! change them meanwhile, so it waits for the first.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::dircopy::interrupt::Interrupt;

/// The message of a run that waits.
pub(crate) const WAITING: &str = "waiting for another run to end";

/// How often a wait that a signal may end tries again.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The lock of a destination.
#[derive(Debug)]
pub(crate) struct RunLock {
    /// The lock belongs to the open file description. The kernel releases it when the last
    /// descriptor is closed.
    _directory: Arc<OwnedFd>,
}

impl RunLock {
    /// Locks the root of the destination with `flock(2)`. If another run has locked it, calls
    /// `on_wait` and waits. On a file system without locks, nothing keeps two runs apart.
    ///
    /// A signal that the process catches does not end the wait: see
    /// [`acquire_unless`](Self::acquire_unless).
    pub(crate) fn acquire(root: &Arc<OwnedFd>, on_wait: impl FnOnce()) -> Self {
        let locked = rustix::fs::flock(root, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(Errno::WOULDBLOCK) {
            on_wait();
            let lock = || rustix::fs::flock(root, FlockOperation::LockExclusive);
            // An error means that the file system has no locks.
            let _ = rustix::io::retry_on_intr(lock);
        }
        Self::of(root)
    }

    /// As [`acquire`](Self::acquire), where signals are caught already. `None` after a signal.
    pub(crate) fn acquire_unless(
        interrupt: &Interrupt,
        root: &Arc<OwnedFd>,
        on_wait: impl FnOnce(),
    ) -> Option<Self> {
        let mut on_wait = Some(on_wait);
        loop {
            let locked = rustix::fs::flock(root, FlockOperation::NonBlockingLockExclusive);
            if locked != Err(Errno::WOULDBLOCK) {
                return Some(Self::of(root));
            }
            if let Some(on_wait) = on_wait.take() {
                on_wait();
            }
            if interrupt.is_requested() {
                return None;
            }
            thread::sleep(RETRY_INTERVAL);
        }
    }

    fn of(root: &Arc<OwnedFd>) -> Self {
        Self {
            _directory: Arc::clone(root),
        }
    }
}
