//! Where the display goes: a terminal, or whatever else standard error is.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios};

/// How long to sleep where a descriptor polls as ready and refuses all the same: a terminal with room for less
/// than a character and what it becomes.
const A_LITTLE: Duration = Duration::from_millis(5);

/// How much may wait for a place that takes nothing. Whoever leaves messages there for so long misses the rest.
const LONGEST_QUEUE: usize = 1 << 16;

/// How much a pipe that polls as writable takes without blocking (`PIPE_BUF`).
const NEVER_BLOCKS: usize = 4096;

/// Asks a terminal where its cursor is (DSR of ECMA-48).
const QUESTION: &[u8] = b"\x1b[6n";

/// What answers to a question are at most: `ESC[65535;65535R`, after what the user has typed meanwhile.
const LONGEST_ANSWER: usize = 4096;

/// A place to draw that never holds anybody up: what it does not take at once waits here.
#[derive(Debug)]
pub struct Tty {
    fd: OwnedFd,
    is_terminal: bool,
    is_readable: bool,
    /// The rest of what it took a part of. Nothing else may come before it, or a sequence would be torn.
    pending: Vec<u8>,
}

/// Columns and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The width, in columns.
    pub columns: u16,
    /// The height, in rows.
    pub rows: u16,
}

/// A place on the screen, counted from 1, as terminals do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// From the top.
    pub row: u16,
    /// From the left.
    pub column: u16,
}

impl Tty {
    /// Draws where the descriptor leads.
    ///
    /// A terminal is opened once more, so that writes do not block and nobody else's flags change.
    ///
    /// # Errors
    ///
    /// That the descriptor cannot be duplicated.
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
                // After `su` the terminal may belong to somebody else.
                Err(_) => (
                    open_again(false).or_else(|_| fd.try_clone_to_owned())?,
                    false,
                ),
            }
        } else {
            // A file would be written from its beginning if it were opened again.
            (fd.try_clone_to_owned()?, false)
        };
        Ok(Self {
            fd,
            is_terminal,
            is_readable,
            pending: Vec::new(),
        })
    }

    /// Whether this is a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Whether this process is in the foreground, so that the screen is its own. What is no terminal, or not
    /// the one that controls this process, has no foreground.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        match rustix::termios::tcgetpgrp(&self.fd) {
            Ok(foreground) => foreground == rustix::process::getpgrp(),
            Err(_) => true,
        }
    }

    /// Whether the terminal echoes the keyboard. Programs turn that off to ask for a password, or to use the whole
    /// screen. A descriptor that is no terminal counts as one that echoes.
    #[must_use]
    pub fn echoes(&self) -> bool {
        match rustix::termios::tcgetattr(&self.fd) {
            Ok(settings) => settings.local_modes.contains(LocalModes::ECHO),
            Err(_) => true,
        }
    }

    /// How large the terminal is, if it says so.
    #[must_use]
    pub fn size(&self) -> Option<Size> {
        let size = rustix::termios::tcgetwinsize(&self.fd).ok()?;
        (size.ws_col > 0 && size.ws_row > 0).then_some(Size {
            columns: size.ws_col,
            rows: size.ws_row,
        })
    }

    /// Writes a frame by one call, unless an earlier one still waits: then the frame is refused.
    ///
    /// What is taken is shown whole, if not at once.
    #[must_use]
    pub fn put(&mut self, frame: &[u8], patience: Duration) -> bool {
        self.put_if(frame, patience, |_| true)
    }

    /// Writes a frame as [`Tty::put`] does, and refuses one if the terminal does not echo.
    ///
    /// The test is the last call before `poll` and `write`. A program that turns the echo off and prompts between these
    /// calls finds the frame over its prompt, because no call of the kernel tests and writes at once.
    #[must_use]
    pub fn put_while_echoing(&mut self, frame: &[u8], patience: Duration) -> bool {
        self.put_if(frame, patience, Self::echoes)
    }

    fn put_if(
        &mut self,
        frame: &[u8],
        patience: Duration,
        may_write: impl FnOnce(&Self) -> bool,
    ) -> bool {
        let deadline = Instant::now() + patience;
        // The buffer grows before the test, which is to be the last step but the write.
        self.pending.reserve(frame.len());
        if !self.flush(patience) || !self.is_writable(deadline) || !may_write(self) {
            return false;
        }
        self.pending.extend_from_slice(frame);
        self.flush(deadline.saturating_duration_since(Instant::now()));
        true
    }

    /// Writes a message, which waits here for as long as it has to. Nobody else does, but for a moment, and not
    /// for every one of many.
    pub fn queue(&mut self, message: &[u8], patience: Duration) {
        let patience = self.unless_clogged(patience);
        if self.pending.len() <= LONGEST_QUEUE {
            self.pending.extend_from_slice(message);
        }
        self.flush(patience);
    }

    /// Whether something waits that was not taken in time.
    #[must_use]
    pub fn is_clogged(&self) -> bool {
        !self.pending.is_empty()
    }

    /// How long to wait for a place that may have been waited for already.
    #[must_use]
    pub fn unless_clogged(&self, patience: Duration) -> Duration {
        if self.is_clogged() {
            Duration::ZERO
        } else {
            patience
        }
    }

    /// Whether nothing waits, at the latest when patience is at an end.
    pub fn flush(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while !self.pending.is_empty() {
            if !self.is_writable(deadline) {
                return false;
            }
            let most = if self.is_terminal {
                self.pending.len()
            } else {
                self.pending.len().min(NEVER_BLOCKS)
            };
            match rustix::io::write(&self.fd, &self.pending[..most]) {
                Ok(n) => {
                    self.pending.drain(..n);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if Instant::now() >= deadline => return false,
                Err(Errno::AGAIN) => std::thread::sleep(A_LITTLE),
                // The terminal has gone, or the file system is full: nobody can be told.
                Err(_) => self.pending.clear(),
            }
        }
        true
    }

    /// Asks the terminal where its cursor is. `None` if there is no answer in time.
    ///
    /// What the user types meanwhile is lost.
    ///
    /// # Errors
    ///
    /// That the terminal's settings cannot be changed, or `WouldBlock` if it does not even take the question, or
    /// if a program has turned its echo off: that program would read the answer.
    pub fn position(&mut self, patience: Duration) -> io::Result<Option<Position>> {
        let deadline = Instant::now() + patience;
        if !self.is_readable {
            return Ok(None);
        }
        if !self.echoes() || !self.flush(Duration::ZERO) || !self.is_writable(Instant::now()) {
            return Err(Errno::WOULDBLOCK.into());
        }
        let _quiet = Quiet::make(&self.fd)?;
        if rustix::io::write(&self.fd, QUESTION)? != QUESTION.len() {
            return Ok(None);
        }
        let mut answer = Vec::new();
        while answer.len() < LONGEST_ANSWER && is_ready(&self.fd, PollFlags::IN, deadline) {
            let mut bytes = [0; 64];
            match rustix::io::read(&self.fd, &mut bytes) {
                Ok(0) => break,
                Ok(n) => answer.extend_from_slice(&bytes[..n]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => break,
            }
            if let position @ Some(_) = answered(&answer) {
                return Ok(position);
            }
        }
        Ok(None)
    }

    fn is_writable(&self, deadline: Instant) -> bool {
        is_ready(&self.fd, PollFlags::OUT, deadline)
    }
}

/// Whether both are one terminal.
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

/// A terminal that neither shows what comes in nor waits for the end of a line, until this is dropped.
struct Quiet<'a> {
    fd: &'a OwnedFd,
    before: Termios,
}

impl<'a> Quiet<'a> {
    fn make(fd: &'a OwnedFd) -> io::Result<Self> {
        let before = rustix::termios::tcgetattr(fd)?;
        let mut quiet = before.clone();
        quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON;
        // One byte is enough to be read.
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        // At once, because a stopped terminal never drains.
        rustix::termios::tcsetattr(fd, OptionalActions::Now, &quiet)?;
        Ok(Self { fd, before })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // If this fails the terminal has gone.
        let _ = rustix::termios::tcsetattr(self.fd, OptionalActions::Now, &self.before);
    }
}

/// Whether the descriptor is ready before the deadline, or at once if that has passed.
fn is_ready(fd: &OwnedFd, wanted: PollFlags, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(fd, wanted)];
        match rustix::event::poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(0) => return false,
            Err(Errno::INTR) => {}
            // Whatever is wrong, the call that follows says what.
            Ok(_) | Err(_) => return true,
        }
    }
}

/// Where the cursor is, by the first answer among what has come in: `ESC[row;columnR`.
fn answered(bytes: &[u8]) -> Option<Position> {
    let text = String::from_utf8_lossy(bytes);
    text.split("\x1b[").skip(1).find_map(|sequence| {
        let (row, rest) = sequence.split_once(';')?;
        let (column, _) = rest.split_once('R')?;
        Some(Position {
            row: row.parse().ok()?,
            column: column.parse().ok()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{Position, answered};

    #[test]
    fn an_answer_is_found_among_what_the_user_types() {
        let position = Some(Position {
            row: 12,
            column: 80,
        });
        for bytes in [
            &b"\x1b[12;80R"[..],
            b"ls -l\x1b[A\x1b[12;80R",
            b"\x1b[1;5A\x1b[12;80Rmore",
        ] {
            assert_eq!(answered(bytes), position, "{bytes:?}");
        }
    }

    #[test]
    fn half_an_answer_is_none() {
        for bytes in [&b""[..], b"\x1b[12;8", b"\x1b[12", b"12;80R", b"\x1b[a;bR"] {
            assert_eq!(answered(bytes), None, "{bytes:?}");
        }
    }
}
