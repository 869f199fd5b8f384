//! A writer that reports a closed descriptor. `std::io::stdout` discards the text then.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// The time between two tries where poll(2) fails.
const RETRY_DELAY: Duration = Duration::from_millis(1);

/// Writer to a descriptor. After an error it refuses all further text.
#[derive(Debug)]
pub(crate) struct FdWriter(Result<OwnedFd, Errno>);

impl FdWriter {
    /// Duplicates the descriptor. A writer to a closed one refuses all text.
    ///
    /// # Errors
    ///
    /// Returns an error if an open descriptor cannot be duplicated.
    pub(crate) fn on(fd: BorrowedFd<'_>) -> io::Result<Self> {
        // Above the standard descriptors.
        match rustix::io::fcntl_dupfd_cloexec(fd, 3) {
            own @ (Ok(_) | Err(Errno::BADF)) => Ok(Self(own)),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Writes all of the text, and waits until the descriptor has accepted it.
    ///
    /// # Errors
    ///
    /// Returns the error of `write(2)`, now or at an earlier call.
    pub(crate) fn put(&mut self, text: &[u8]) -> io::Result<()> {
        let written = match &self.0 {
            Ok(fd) => write_all(fd, text),
            Err(errno) => Err(*errno),
        };
        if let Err(errno) = written {
            self.0 = Err(errno);
        }
        Ok(written?)
    }
}

/// Writes all of the text, and waits until the descriptor has accepted it.
///
/// # Errors
///
/// Returns the error of `write(2)`.
pub(crate) fn write_all(fd: impl AsFd, mut text: &[u8]) -> Result<(), Errno> {
    while !text.is_empty() {
        match rustix::io::write(&fd, text) {
            Ok(n) => text = &text[n..],
            Err(Errno::INTR) => {}
            // Another process has set `O_NONBLOCK` on the same pipe.
            Err(Errno::AGAIN) => {
                let mut fds = [PollFd::new(&fd, PollFlags::OUT)];
                if rustix::event::poll(&mut fds, None).is_err() {
                    // A limit of no descriptors forbids to poll one, or a signal came.
                    std::thread::sleep(RETRY_DELAY);
                }
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
