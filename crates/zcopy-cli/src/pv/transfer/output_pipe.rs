//! The pipe of the output, as the display uses it.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A descriptor of the output's pipe.
///
/// The reader of the pipe sees its end only after every descriptor is closed, including this one.
#[derive(Debug)]
pub(crate) struct OutputPipe(Mutex<Option<OwnedFd>>);

impl OutputPipe {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self(Mutex::new(Some(fd)))
    }

    /// Closes the descriptor.
    pub(crate) fn close(&self) {
        drop(self.lock().take());
    }

    /// Returns the number of bytes in the pipe.
    pub(crate) fn unread(&self) -> Option<u64> {
        let fd = self.lock();
        rustix::io::ioctl_fionread(fd.as_ref()?).ok()
    }

    /// Returns the capacity of the pipe in bytes.
    pub(crate) fn capacity(&self) -> Option<usize> {
        let fd = self.lock();
        rustix::pipe::fcntl_getpipe_size(fd.as_ref()?).ok()
    }

    /// Returns whether the pipe has no readers any more, or `None` after the descriptor has been
    /// closed.
    pub(crate) fn has_lost_reader(&self) -> Option<bool> {
        let fd = self.lock();
        let mut fds = [PollFd::from_borrowed_fd(
            fd.as_ref()?.as_fd(),
            PollFlags::empty(),
        )];
        let polled = poll(&mut fds, Some(&Timespec::default()));
        Some(polled.is_ok() && fds[0].revents().contains(PollFlags::ERR))
    }

    fn lock(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
