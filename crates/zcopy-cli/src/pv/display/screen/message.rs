//! Messages between frames of the display.

use crossterm::QueueableCommand as _;
use crossterm::terminal::{Clear, ClearType};

use super::{EXIT_TIMEOUT, Row, Screen, WRITE_TIMEOUT};
use crate::common::terminal::frame::fresh_line;

impl Screen {
    /// Writes a message above the display, and the next frame below it. If nothing is displayed,
    /// the message goes to standard error. With `-c` it goes below the rows of all displays, and
    /// while another program asks for a password, below its prompt.
    ///
    /// If the terminal accepts nothing, the message is queued.
    pub fn write_message(&mut self, message: &str) {
        let mut frame = Vec::new();
        if self.shares() && self.is_foreground() {
            let columns = self.tty.size().unwrap_or(self.size).columns;
            frame.extend_from_slice(&fresh_line(columns));
            self.is_written_over = true;
        } else if self.is_foreground() && self.hides_typing() {
            self.yield_to_prompt();
            let has_display = self.has_drawn || self.undrawn.is_some();
            if has_display && self.has_sequences() {
                let columns = self.tty.size().unwrap_or(self.size).columns;
                frame.extend_from_slice(&fresh_line(columns));
            }
        } else if self.has_drawn && self.is_foreground() && self.has_sequences() {
            if self
                .acquire_slot(self.tty.unless_pending(EXIT_TIMEOUT))
                .is_some()
            {
                let is_written = match &mut self.row {
                    Row::Own(rows) => {
                        rows.write_message(&mut self.tty, self.size, message, WRITE_TIMEOUT)
                    }
                    Row::Any | Row::Wanted => false,
                };
                self.release_slot();
                if is_written {
                    return;
                }
            }
            let _ = frame.queue(Clear(ClearType::CurrentLine));
        } else if self.shown > 0 && self.is_foreground() {
            // Blanks clear the old line.
            frame.extend(std::iter::repeat_n(b' ', self.shown));
            frame.push(b'\r');
        }
        frame.extend_from_slice(message.as_bytes());
        if self.setup.own_row && self.is_foreground() && self.has_sequences() {
            // The row may have belonged to another display.
            let _ = frame.queue(Clear(ClearType::UntilNewLine));
        }
        frame.push(b'\n');
        self.tty.queue(&frame, WRITE_TIMEOUT);
        self.shown = 0;
    }
}
