//! Standard error: messages, and below them the progress line.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::common::io::fd_writer::FdWriter;
use crate::common::terminal::ansi::width;
use crate::common::terminal::capabilities::Capabilities;
use crate::common::terminal::frame::{fresh_line, put};
use crate::common::terminal::tty::Tty;

/// How long a message may wait for a terminal. The rest is written later.
const WRITE_TIMEOUT: Duration = Duration::from_millis(20);

/// The time-out of a wait that is repeated until the terminal takes the text.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3600);

/// The most bytes of messages that wait for a terminal, about 10000 messages. A thread with one
/// more message waits. No message is lost.
const LONGEST_QUEUE: usize = 1 << 20;

/// The width of a terminal that does not report it.
const USUAL_COLUMNS: u16 = 80;

/// Where messages are written.
#[derive(Debug)]
pub(crate) enum Screen {
    /// Messages without a progress line. A write waits until all of it is written.
    Plain(FdWriter),
    /// A terminal with a progress line.
    Terminal(Terminal),
}

impl Screen {
    /// Draws the progress line if the descriptor is a terminal, and this process is in its
    /// foreground.
    ///
    /// # Errors
    ///
    /// As [`FdWriter::on`].
    pub(crate) fn on(fd: BorrowedFd<'_>, capabilities: Capabilities) -> io::Result<Self> {
        match Tty::on(fd) {
            Ok(tty) if tty.is_terminal() && tty.is_foreground() => Ok(Self::Terminal(Terminal {
                tty,
                has_sequences: capabilities.sequences,
                shown: String::new(),
                is_behind_prompt: false,
                waiting: Vec::new(),
            })),
            _ => Self::without_line(fd),
        }
    }

    /// Writes messages alone.
    ///
    /// # Errors
    ///
    /// As [`FdWriter::on`].
    pub(crate) fn without_line(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self::Plain(FdWriter::on(fd)?))
    }

    /// Whether there is a progress line.
    pub(crate) fn has_line(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Writes a message, which ends with a newline, above the progress line.
    pub(crate) fn write_message(&mut self, message: &[u8]) {
        match self {
            // A message to a closed standard error is lost.
            Self::Plain(stderr) => drop(stderr.put(message)),
            Self::Terminal(terminal) => terminal.write_message(message),
        }
    }

    /// Draws the progress line over the last one. `line` gets the number of columns. Nothing is
    /// drawn while the terminal is full, while another process group is in its foreground, or while
    /// it does not echo, because another program asks for a password.
    pub(crate) fn draw(&mut self, line: impl FnOnce(usize) -> String) {
        if let Self::Terminal(terminal) = self {
            terminal.draw(line);
        }
    }

    /// Removes the progress line.
    pub(crate) fn remove_line(&mut self) {
        if let Self::Terminal(terminal) = self {
            terminal.remove_line();
        }
    }

    /// Removes the progress line, and waits until the terminal has taken all messages or is closed.
    pub(crate) fn finish(&mut self) {
        if let Self::Terminal(terminal) = self {
            terminal.remove_line();
            while !terminal.flush(EXIT_TIMEOUT) {}
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A terminal with a progress line. Writes do not wait for it until [`LONGEST_QUEUE`] bytes are
/// queued.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: Tty,
    /// Whether it understands escape sequences.
    has_sequences: bool,
    /// The progress line that the terminal shows after all queued text; empty without a line.
    shown: String,
    /// Whether the cursor may stand behind a prompt, which nothing is to overwrite.
    is_behind_prompt: bool,
    /// Messages that have not been given to `tty`.
    waiting: Vec<u8>,
}

impl Terminal {
    fn write_message(&mut self, message: &[u8]) {
        self.forget_lost_line();
        let mut text = self.erasure();
        text.extend_from_slice(message);
        self.is_behind_prompt = false;
        if self.flush(Duration::ZERO) {
            text.extend_from_slice(self.shown.as_bytes());
        } else {
            // The next frame draws it again.
            self.shown.clear();
        }
        self.send(&text);
    }

    fn draw(&mut self, line: impl FnOnce(usize) -> String) {
        self.forget_lost_line();
        if !self.flush(Duration::ZERO) || !self.tty.is_foreground() || !self.tty.echoes() {
            return;
        }
        let columns = self.columns();
        // In the last column the cursor would stand on two rows at once.
        let line = line(usize::from(columns.saturating_sub(1)));
        let mut frame = self.line_start();
        if self.has_sequences {
            put(&mut frame, &line, columns);
        } else {
            frame.extend_from_slice(line.as_bytes());
            let rest = width(&self.shown).saturating_sub(width(&line));
            frame.extend(std::iter::repeat_n(b' ', rest));
        }
        if self.tty.put_while_echoing(&frame, WRITE_TIMEOUT) {
            self.shown = line;
            self.is_behind_prompt = false;
        } else if !self.tty.echoes() {
            self.give_way();
        }
    }

    /// Leaves the line as it is. The prompt of a program that asks for a password may stand behind
    /// it.
    fn give_way(&mut self) {
        self.shown.clear();
        self.is_behind_prompt = true;
    }

    /// Returns what brings the cursor to the beginning of the line, or of an empty one below a
    /// prompt.
    fn line_start(&self) -> Vec<u8> {
        if self.is_behind_prompt && self.has_sequences {
            fresh_line(self.columns())
        } else {
            b"\r".to_vec()
        }
    }

    fn columns(&self) -> u16 {
        self.tty.size().map_or(USUAL_COLUMNS, |size| size.columns)
    }

    fn remove_line(&mut self) {
        self.forget_lost_line();
        let text = self.erasure();
        self.shown.clear();
        self.is_behind_prompt = false;
        self.send(&text);
    }

    /// Forgets the line if another program may have written to the terminal: a command in the
    /// foreground, or one that asks for a password.
    fn forget_lost_line(&mut self) {
        if !self.tty.is_foreground() {
            self.shown.clear();
        } else if !self.tty.echoes() {
            self.give_way();
        }
    }

    /// The text that removes the line.
    fn erasure(&self) -> Vec<u8> {
        match width(&self.shown) {
            0 if self.is_behind_prompt => self.line_start(),
            0 => Vec::new(),
            _ if self.has_sequences => b"\r\x1b[K".to_vec(),
            columns => format!("\r{:columns$}\r", "").into_bytes(),
        }
    }

    /// Writes text after all queued text, or queues it.
    fn send(&mut self, text: &[u8]) {
        if self.flush(Duration::ZERO) {
            self.tty.queue(text, WRITE_TIMEOUT);
            return;
        }
        self.waiting.extend_from_slice(text);
        while self.waiting.len() > LONGEST_QUEUE {
            self.flush(EXIT_TIMEOUT);
        }
    }

    /// Writes queued text for at most `timeout`. Returns whether all is written.
    fn flush(&mut self, timeout: Duration) -> bool {
        if !self.tty.flush(timeout) {
            return false;
        }
        if !self.waiting.is_empty() {
            let waiting = std::mem::take(&mut self.waiting);
            self.tty.queue(&waiting, timeout);
        }
        !self.tty.has_pending()
    }
}
