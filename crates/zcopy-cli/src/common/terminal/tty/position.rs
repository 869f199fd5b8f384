//! The query for the position of the cursor.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::termios::QueueSelector;

use super::{RETRY_DELAY, Tty};
use crate::common::sys;

/// The query for the position of the cursor (DSR of ECMA-48).
const CURSOR_QUERY: &[u8] = b"\x1b[6n";

/// The most bytes that are read for an answer, `ESC[65535;65535R`, with what the user types
/// meanwhile.
const MAX_ANSWER: usize = 4096;

/// The longest wait for an answer while the process is about to stop. A later answer goes to the
/// shell, as what the user types does.
const STOPPING_ANSWER_TIMEOUT: Duration = Duration::from_millis(100);

/// A position of the cursor, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CursorPosition {
    /// The row, from the top.
    pub row: u16,
    /// The column, from the left.
    pub column: u16,
}

impl Tty {
    /// Asks the terminal for the position of its cursor. Returns `None` if it does not answer in
    /// time.
    ///
    /// Input from before the answer is lost: what is typed ahead, and what is typed until the
    /// terminal answers. Input behind the answer stays.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings of the terminal cannot be changed. Returns `WouldBlock` if
    /// the terminal does not accept the query, if a program has turned its echo off, because that
    /// program would read the answer, or if the process is about to stop: `TSTP` is
    /// [pending](sys::is_pending).
    pub fn position(&mut self, timeout: Duration) -> io::Result<Option<CursorPosition>> {
        let deadline = Instant::now() + timeout;
        if !self.is_readable {
            return Ok(None);
        }
        if !self.echoes() || !self.flush(Duration::ZERO) || !self.is_writable(Instant::now()) {
            return Err(Errno::WOULDBLOCK.into());
        }
        // Without the descriptor, a stop waits for the answer.
        let stop = sys::signalfd(libc::SIGTSTP).ok();
        let modes = self.begin_query()?;
        let answer = self.query_position(stop.as_ref(), deadline);
        self.end_query(modes);
        answer
    }

    fn query_position(
        &self,
        mut stop: Option<&OwnedFd>,
        mut deadline: Instant,
    ) -> io::Result<Option<CursorPosition>> {
        if sys::is_pending(libc::SIGTSTP) {
            return Err(Errno::WOULDBLOCK.into());
        }
        // The answer to an earlier query may have come too late for it.
        rustix::termios::tcflush(&self.fd, QueueSelector::IFlush)?;
        if rustix::io::write(&self.fd, CURSOR_QUERY)? != CURSOR_QUERY.len() {
            return Ok(None);
        }
        let (mut answer, mut position) = (Vec::new(), None);
        let mut is_stopping = false;
        while answer.len() < MAX_ANSWER {
            match self.wait_for_input(stop, deadline) {
                Awaited::Input => {}
                Awaited::Stop => {
                    // The shell would take an answer for input.
                    is_stopping = true;
                    stop = None;
                    deadline = deadline.min(Instant::now() + STOPPING_ANSWER_TIMEOUT);
                    continue;
                }
                Awaited::Nothing => break,
            }
            // A byte at a time, because bytes behind the answer belong to the next reader.
            let mut byte = [0; 1];
            match rustix::io::read(&self.fd, &mut byte) {
                Ok(0) => break,
                Ok(_) => answer.extend_from_slice(&byte),
                // If poll(2) fails, nothing else ends the wait.
                Err(Errno::AGAIN) if Instant::now() >= deadline => break,
                Err(Errno::AGAIN) => std::thread::sleep(RETRY_DELAY),
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
            position = answered(&answer);
            if position.is_some() {
                break;
            }
        }
        if is_stopping {
            return Err(Errno::WOULDBLOCK.into());
        }
        Ok(position)
    }

    /// Waits for input, or until `stop` becomes readable, at most until the deadline.
    fn wait_for_input(&self, stop: Option<&OwnedFd>, deadline: Instant) -> Awaited {
        let fds = [self.fd.as_fd(), stop.unwrap_or(&self.fd).as_fd()];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            match rustix::event::poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
                Ok(0) => return Awaited::Nothing,
                Err(Errno::INTR) => {}
                Ok(_) if fds[0].revents().is_empty() => return Awaited::Stop,
                // If poll(2) fails, the read reports the error.
                Ok(_) | Err(_) => return Awaited::Input,
            }
        }
    }
}

/// The event that ends a wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Input,
    Stop,
    Nothing,
}

/// Returns the position in the first answer among these bytes: `ESC[row;columnR`.
fn answered(bytes: &[u8]) -> Option<CursorPosition> {
    let text = String::from_utf8_lossy(bytes);
    text.split("\x1b[").skip(1).find_map(|sequence| {
        let (row, rest) = sequence.split_once(';')?;
        let (column, _) = rest.split_once('R')?;
        Some(CursorPosition {
            row: row.parse().ok()?,
            column: column.parse().ok()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{CursorPosition, answered};

    #[test]
    fn an_answer_is_found_among_what_the_user_types() {
        let position = Some(CursorPosition {
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
