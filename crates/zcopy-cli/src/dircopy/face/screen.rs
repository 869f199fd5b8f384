//! Standard error: messages, and below them a line that is drawn again and again.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::look::Look;
use crate::outlet::Outlet;
use crate::tty::Tty;

/// How long whoever has something to say may be held up by a terminal. It gets the rest later.
const A_MOMENT: Duration = Duration::from_millis(20);

/// How long to sleep at once where nothing is left to do but to wait.
const A_WHILE: Duration = Duration::from_secs(3600);

/// How many bytes of messages may wait for a terminal before those who have more to say wait too: thousands of
/// messages, none of which is lost.
const LONGEST_QUEUE: usize = 1 << 20;

/// How wide a terminal is taken to be that does not say so.
const USUAL_COLUMNS: u16 = 80;

/// Where messages go, with or without a line below them.
#[derive(Debug)]
pub(in crate::dircopy) enum Screen {
    /// Messages alone, which wait for nobody and are waited for.
    Plain(Outlet),
    /// A terminal.
    Terminal(Terminal),
}

impl Screen {
    /// A line is drawn where the descriptor leads, if that is a terminal, and is not somebody else's just now.
    ///
    /// # Errors
    ///
    /// As [`Outlet::on`].
    pub(in crate::dircopy) fn on(fd: BorrowedFd<'_>, look: Look) -> io::Result<Self> {
        match Tty::on(fd) {
            Ok(tty) if tty.is_terminal() && tty.is_ours() => Ok(Self::Terminal(Terminal {
                tty,
                has_sequences: look.sequences,
                shown: String::new(),
                waiting: Vec::new(),
            })),
            _ => Self::without_line(fd),
        }
    }

    /// No line is drawn.
    ///
    /// # Errors
    ///
    /// As [`Outlet::on`].
    pub(in crate::dircopy) fn without_line(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self::Plain(Outlet::on(fd)?))
    }

    /// Whether there is a line.
    pub(in crate::dircopy) fn has_line(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Writes a message, which ends its line, above the line.
    pub(in crate::dircopy) fn say(&mut self, message: &[u8]) {
        match self {
            // Whoever closed standard error wants to hear nothing.
            Self::Plain(outlet) => drop(outlet.put(message)),
            Self::Terminal(terminal) => terminal.say(message),
        }
    }

    /// Draws the line that fits so many columns over the one before. Where there is no room for it, or the terminal is
    /// somebody else's, it is left out.
    pub(in crate::dircopy) fn draw(&mut self, line: impl FnOnce(usize) -> String) {
        if let Self::Terminal(terminal) = self {
            terminal.draw(line);
        }
    }

    /// Leaves no line.
    pub(in crate::dircopy) fn take_line_away(&mut self) {
        if let Self::Terminal(terminal) = self {
            terminal.take_line_away();
        }
    }

    /// Leaves no line, and waits until the terminal has taken all messages, or has gone.
    pub(in crate::dircopy) fn finish(&mut self) {
        if let Self::Terminal(terminal) = self {
            terminal.take_line_away();
            while !terminal.flush(A_WHILE) {}
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A terminal, which nobody waits for unless it has very much to take.
#[derive(Debug)]
pub(in crate::dircopy) struct Terminal {
    tty: Tty,
    /// Whether it understands more than text and carriage returns.
    has_sequences: bool,
    /// The line that stands below the messages when the terminal has taken all that waits; empty if there is none.
    shown: String,
    /// Messages behind those that the terminal has been offered.
    waiting: Vec<u8>,
}

impl Terminal {
    fn say(&mut self, message: &[u8]) {
        self.look_whose_it_is();
        let mut text = self.erasure();
        text.extend_from_slice(message);
        if self.flush(Duration::ZERO) {
            text.extend_from_slice(self.shown.as_bytes());
        } else {
            // It comes back when the terminal takes something.
            self.shown.clear();
        }
        self.send(&text);
    }

    fn draw(&mut self, line: impl FnOnce(usize) -> String) {
        self.look_whose_it_is();
        if !self.flush(Duration::ZERO) || !self.tty.is_ours() {
            return;
        }
        let columns = self.tty.size().map_or(USUAL_COLUMNS, |size| size.columns);
        // In the last column the cursor would stand on two rows at once.
        let line = line(usize::from(columns.saturating_sub(1)));
        let frame = if self.has_sequences {
            format!("\r{line}\x1b[K")
        } else {
            format!("\r{line:<width$}", width = self.shown.len())
        };
        if self.tty.put(frame.as_bytes(), A_MOMENT) {
            self.shown = line;
        }
    }

    fn take_line_away(&mut self) {
        self.look_whose_it_is();
        let text = self.erasure();
        self.shown.clear();
        self.send(&text);
    }

    /// Forgets the line if it is no longer the last on the screen.
    fn look_whose_it_is(&mut self) {
        if !self.tty.is_ours() {
            self.shown.clear();
        }
    }

    /// What takes the line away.
    fn erasure(&self) -> Vec<u8> {
        match self.shown.len() {
            0 => Vec::new(),
            _ if self.has_sequences => b"\r\x1b[K".to_vec(),
            len => format!("\r{:len$}\r", "").into_bytes(),
        }
    }

    /// Writes text behind all that waits. It waits too, if it must.
    fn send(&mut self, text: &[u8]) {
        if self.flush(Duration::ZERO) {
            self.tty.queue(text, A_MOMENT);
            return;
        }
        self.waiting.extend_from_slice(text);
        while self.waiting.len() > LONGEST_QUEUE {
            self.flush(A_WHILE);
        }
    }

    /// Whether nothing waits, at the latest when patience is at an end.
    fn flush(&mut self, patience: Duration) -> bool {
        if !self.tty.flush(patience) {
            return false;
        }
        if !self.waiting.is_empty() {
            let waiting = std::mem::take(&mut self.waiting);
            self.tty.queue(&waiting, patience);
        }
        !self.tty.is_clogged()
    }
}
