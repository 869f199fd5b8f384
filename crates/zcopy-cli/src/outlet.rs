//! A descriptor that text is written to, and not by `std::io::stdout`, to which a closed one is as good as `/dev/null`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// A descriptor that text is written to, whole and at once. Once it has refused something, it refuses the rest too: what
/// follows would make no sense.
#[derive(Debug)]
pub(crate) struct Outlet(Result<OwnedFd, Errno>);

impl Outlet {
    /// Writes where the descriptor leads. One that is closed refuses everything.
    ///
    /// # Errors
    ///
    /// If an open descriptor cannot be duplicated.
    pub(crate) fn on(fd: BorrowedFd<'_>) -> io::Result<Self> {
        // Above the standard descriptors.
        match rustix::io::fcntl_dupfd_cloexec(fd, 3) {
            own @ (Ok(_) | Err(Errno::BADF)) => Ok(Self(own)),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Writes all of it, and waits until that is taken.
    ///
    /// # Errors
    ///
    /// What `write(2)` says, or once said.
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

/// Writes all of it, and waits until that is taken.
///
/// # Errors
///
/// What `write(2)` says.
pub(crate) fn write_all(fd: impl AsFd, mut text: &[u8]) -> Result<(), Errno> {
    while !text.is_empty() {
        match rustix::io::write(&fd, text) {
            Ok(n) => text = &text[n..],
            Err(Errno::INTR) => {}
            // Somebody who has the same pipe open does not want to wait for it.
            Err(Errno::AGAIN) => {
                let mut fds = [PollFd::new(&fd, PollFlags::OUT)];
                // Whatever is wrong, the call that follows says what.
                let _ = rustix::event::poll(&mut fds, None);
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
