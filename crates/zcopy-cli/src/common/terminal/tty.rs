//! Output to a terminal, pipe or file that does not block.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, OFlags};
use rustix::io::{Errno, IoSlice, ReadWriteFlags};
use rustix::termios::LocalModes;

use modes::QueryModes;
pub use position::CursorPosition;

mod modes;
mod position;

/// The pause after a descriptor that polls as ready has refused a write: a terminal may have less
/// room than one character needs.
const RETRY_DELAY: Duration = Duration::from_millis(5);

/// The most bytes that wait for a terminal or pipe. Messages beyond are dropped.
const MAX_QUEUE: usize = 1 << 20;

/// The number of bytes that a pipe accepts without blocking if it polls as writable.
const PIPE_BUF: usize = 4096;

/// A non-blocking output descriptor. It buffers what the terminal does not accept at once.
#[derive(Debug)]
pub struct Tty {
    fd: OwnedFd,
    kind: Kind,
    is_readable: bool,
    /// The bytes that are not written yet. They come before all others, so that no sequence is
    /// torn.
    pending: Vec<u8>,
    /// The first error of a write.
    error: Option<Errno>,
    /// Whether a message was dropped because the queue was full.
    has_dropped: bool,
    /// The modes of a query that ended when the terminal already belonged to another process.
    left_modes: Option<QueryModes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Terminal,
    /// A pipe or a socket, of which others may take the room between `poll` and `write`.
    Stream,
    Other,
}

impl Kind {
    /// Returns the kind of a descriptor that is no terminal.
    fn of(fd: &OwnedFd) -> rustix::io::Result<Self> {
        let mode = rustix::fs::fstat(fd)?.st_mode;
        Ok(match FileType::from_raw_mode(mode) {
            FileType::Fifo | FileType::Socket => Self::Stream,
            _ => Self::Other,
        })
    }
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The width, in columns.
    pub columns: u16,
    /// The height, in rows.
    pub rows: u16,
}

impl Tty {
    /// Opens the terminal of a descriptor again, so that writes do not block and no flags of other
    /// processes change. Duplicates any other descriptor.
    ///
    /// # Errors
    ///
    /// Returns an error if the descriptor cannot be duplicated.
    pub fn on(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let is_terminal = rustix::termios::isatty(fd);
        let open_again = |readable| {
            let flags = OFlags::NOCTTY | OFlags::NONBLOCK;
            std::fs::OpenOptions::new()
                .read(readable)
                .write(true)
                .custom_flags(flags.bits().cast_signed())
                .open(format!(
                    "/proc/self/fd/{}",
                    std::os::fd::AsRawFd::as_raw_fd(&fd)
                ))
                .map(OwnedFd::from)
        };
        let (fd, is_readable) = if is_terminal {
            match open_again(true) {
                Ok(fd) => (fd, true),
                // After `su` the terminal may belong to another user.
                Err(_) => (
                    open_again(false).or_else(|_| fd.try_clone_to_owned())?,
                    false,
                ),
            }
        } else {
            // Opening a file again would write from its beginning.
            (fd.try_clone_to_owned()?, false)
        };
        Ok(Self {
            kind: if is_terminal {
                Kind::Terminal
            } else {
                Kind::of(&fd)?
            },
            is_readable,
            fd,
            pending: Vec::new(),
            error: None,
            has_dropped: false,
            left_modes: None,
        })
    }

    /// Returns whether this is a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.kind == Kind::Terminal
    }

    /// Returns whether this process is in the foreground. Returns true for descriptors other than
    /// the controlling terminal.
    #[must_use]
    pub fn is_foreground(&self) -> bool {
        match rustix::termios::tcgetpgrp(&self.fd) {
            Ok(foreground) => foreground == rustix::process::getpgrp(),
            Err(_) => true,
        }
    }

    /// Returns whether the terminal echoes the keyboard. Programs turn the echo off to ask for a
    /// password or to use the whole screen. Returns true for descriptors that are not terminals.
    #[must_use]
    pub fn echoes(&self) -> bool {
        match rustix::termios::tcgetattr(&self.fd) {
            Ok(settings) => settings.local_modes.contains(LocalModes::ECHO),
            Err(_) => true,
        }
    }

    /// Returns the size of the terminal, if it is known.
    #[must_use]
    pub fn size(&self) -> Option<Size> {
        let size = rustix::termios::tcgetwinsize(&self.fd).ok()?;
        (size.ws_col > 0 && size.ws_row > 0).then_some(Size {
            columns: size.ws_col,
            rows: size.ws_row,
        })
    }

    /// Writes a frame by one call. Returns false, and writes nothing, if bytes of an earlier one
    /// are still pending after `timeout`.
    ///
    /// If it returns true, the whole frame is shown, but perhaps later.
    #[must_use]
    pub fn put(&mut self, frame: &[u8], timeout: Duration) -> bool {
        self.put_if(frame, timeout, |_| true)
    }

    /// Writes a frame as [`Tty::put`] does, and refuses one if the terminal does not echo.
    ///
    /// The test is the last call before `poll` and `write`. If a program turns the echo off and
    /// prompts between these calls, the frame overwrites its prompt: no system call tests and
    /// writes at once.
    #[must_use]
    pub fn put_while_echoing(&mut self, frame: &[u8], timeout: Duration) -> bool {
        self.put_if(frame, timeout, Self::echoes)
    }

    fn put_if(
        &mut self,
        frame: &[u8],
        timeout: Duration,
        may_write: impl FnOnce(&Self) -> bool,
    ) -> bool {
        let deadline = Instant::now() + timeout;
        // The buffer grows before the test, so that nothing but the write follows it.
        self.pending.reserve(frame.len());
        if !self.flush(timeout) || !self.is_writable(deadline) || !may_write(self) {
            return false;
        }
        self.pending.extend_from_slice(frame);
        self.flush(deadline.saturating_duration_since(Instant::now()));
        true
    }

    /// Writes a message. Bytes that the terminal does not accept stay in a queue. The call waits
    /// for at most `timeout`, and not at all if older bytes are pending. If the queue is full, the
    /// message is [dropped](Self::has_dropped).
    pub fn queue(&mut self, message: &[u8], timeout: Duration) {
        // Room that a reader has made since the last message counts.
        if self.pending.len() > MAX_QUEUE {
            self.flush(Duration::ZERO);
        }
        if self.pending.len() <= MAX_QUEUE {
            self.queue_last(message, timeout);
        } else {
            self.has_dropped = true;
        }
    }

    /// Writes a message as [`queue`](Self::queue) does, and keeps it even if the queue is full.
    pub fn queue_last(&mut self, message: &[u8], timeout: Duration) {
        let timeout = self.unless_pending(timeout);
        self.pending.extend_from_slice(message);
        self.flush(timeout);
    }

    /// Returns whether bytes are pending.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns `timeout`, or zero if bytes of an earlier write are pending.
    #[must_use]
    pub fn unless_pending(&self, timeout: Duration) -> Duration {
        if self.has_pending() {
            Duration::ZERO
        } else {
            timeout
        }
    }

    /// Returns whether a message was dropped because the queue was full.
    #[must_use]
    pub fn has_dropped(&self) -> bool {
        self.has_dropped
    }

    /// Returns the first error of a write, after which the bytes of that write were dropped.
    #[must_use]
    pub fn error(&self) -> Option<io::Error> {
        self.error.map(Into::into)
    }

    /// Writes pending bytes for at most `timeout`. Returns whether none are left: all have been
    /// written, or a write has failed.
    pub fn flush(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        while !self.pending.is_empty() {
            if !self.is_writable(deadline) {
                return false;
            }
            let max = if self.is_terminal() {
                self.pending.len()
            } else {
                whole_lines(&self.pending)
            };
            match self.write_now(&self.pending[..max]) {
                Ok(n) => {
                    self.pending.drain(..n);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if Instant::now() >= deadline => return false,
                Err(Errno::AGAIN) => std::thread::sleep(RETRY_DELAY),
                // The terminal has gone, or the file system is full.
                Err(errno) => {
                    self.error.get_or_insert(errno);
                    self.pending.clear();
                }
            }
        }
        true
    }

    /// Writes without waiting for a reader. The open pipe or socket may be that of others, and must
    /// not become non-blocking for them.
    fn write_now(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        if self.kind == Kind::Stream {
            let slices = [IoSlice::new(bytes)];
            match rustix::io::pwritev2(&self.fd, &slices, u64::MAX, ReadWriteFlags::NOWAIT) {
                // A filter of system calls, or an old kernel.
                Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {}
                written => return written,
            }
        }
        rustix::io::write(&self.fd, bytes)
    }

    fn is_writable(&self, deadline: Instant) -> bool {
        is_ready(&self.fd, PollFlags::OUT, deadline)
    }
}

/// Returns how many of these bytes one write to a pipe takes at once: whole lines, so that no other
/// writer divides one. A longer line is divided.
fn whole_lines(bytes: &[u8]) -> usize {
    let Some(first) = bytes.get(..PIPE_BUF) else {
        return bytes.len();
    };
    let newline = first.iter().rposition(|&byte| byte == b'\n');
    newline.map_or(PIPE_BUF, |n| n + 1)
}

/// Returns whether a write failed because its reader has gone. A terminal whose other side was closed
/// fails with `EIO`.
#[must_use]
pub fn has_lost_reader(fd: BorrowedFd<'_>, error: &io::Error) -> bool {
    // A terminal without its other side no longer answers as a terminal, but has hung up. One that
    // is there may refuse a process in the background by the same errno.
    let is_closed = || {
        let stat = rustix::fs::fstat(fd);
        let is_device = |mode| FileType::from_raw_mode(mode) == FileType::CharacterDevice;
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
        stat.is_ok_and(|stat| is_device(stat.st_mode))
            && rustix::event::poll(&mut fds, Some(&Timespec::default())).is_ok()
            && fds[0].revents().contains(PollFlags::HUP)
    };
    match Errno::from_io_error(error) {
        Some(Errno::PIPE) => true,
        Some(Errno::IO) => is_closed(),
        _ => false,
    }
}

/// Returns whether both descriptors are the same terminal.
#[must_use]
pub fn is_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    let device = |fd| match rustix::fs::fstat(fd) {
        Ok(stat) if rustix::termios::isatty(fd) => Some(stat.st_rdev),
        _ => None,
    };
    device(one).is_some_and(|one| device(other) == Some(one))
}

impl AsFd for Tty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Waits until the descriptor is ready, at most until the deadline. Returns whether it is.
fn is_ready(fd: &OwnedFd, wanted: PollFlags, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(fd, wanted)];
        match rustix::event::poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(0) => return false,
            Err(Errno::INTR) => {}
            // If poll(2) fails, the next call reports the error.
            Ok(_) | Err(_) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::os::fd::AsFd as _;

    use rustix::io::{Errno, ReadWriteFlags};

    use super::Tty;

    /// Another writer may fill the pipe between `poll` and `write`. The write then slept until
    /// somebody read.
    #[test]
    fn a_write_to_a_full_pipe_does_not_wait() {
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        let first = [IoSlice::new(b"first")];
        let written = rustix::io::pwritev2(&writer, &first, u64::MAX, ReadWriteFlags::NOWAIT);
        if written == Err(Errno::OPNOTSUPP) {
            // The write below would wait for ever.
            eprintln!("SKIPPED: before Linux 6.4 no flag keeps a write to a pipe from waiting");
            return;
        }
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        while rustix::io::write(&writer, &[0; 4096]).is_ok() {}
        rustix::io::ioctl_fionbio(&writer, false).unwrap();
        let tty = Tty::on(writer.as_fd()).unwrap();
        assert_eq!(tty.write_now(b"message"), Err(Errno::AGAIN));
    }
}
