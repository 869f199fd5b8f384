//! Messages, which are not to stand in the display's way, nor it in theirs.

use crossterm::QueueableCommand as _;
use crossterm::terminal::{Clear, ClearType};

use super::frame::fresh_line;
use super::{A_MOMENT, PATIENCE, Row, Screen};

impl Screen {
    /// Writes a message above the display, or wherever standard error leads. The display follows with its next
    /// frame. With `-c` the message stands below the rows of all displays, and during a prompt below that.
    ///
    /// A terminal that takes nothing gets it later.
    pub fn say(&mut self, message: &str) {
        let mut frame = Vec::new();
        if self.shares() && self.is_ours() {
            let columns = self.tty.size().unwrap_or(self.size).columns;
            frame.extend_from_slice(&fresh_line(columns));
            self.is_written_over = true;
        } else if self.is_ours() && self.hides_typing() {
            self.give_way();
            let has_display = self.has_drawn || self.undrawn.is_some();
            if has_display && self.has_sequences() {
                let columns = self.tty.size().unwrap_or(self.size).columns;
                frame.extend_from_slice(&fresh_line(columns));
            }
        } else if self.has_drawn && self.is_ours() && self.has_sequences() {
            if self.take_turn(self.tty.unless_clogged(PATIENCE)).is_some() {
                let is_said = match &mut self.row {
                    Row::Own(rows) => rows.say(&mut self.tty, self.size, message, A_MOMENT),
                    Row::Any | Row::Wanted => false,
                };
                self.give_turn_back();
                if is_said {
                    return;
                }
            }
            let _ = frame.queue(Clear(ClearType::CurrentLine));
        } else if self.shown > 0 && self.is_ours() {
            // Nothing else clears what stands there.
            frame.extend(std::iter::repeat_n(b' ', self.shown));
            frame.push(b'\r');
        }
        frame.extend_from_slice(message.as_bytes());
        if self.setup.own_row && self.is_ours() && self.has_sequences() {
            // The row may have been somebody else's.
            let _ = frame.queue(Clear(ClearType::UntilNewLine));
        }
        frame.push(b'\n');
        self.tty.queue(&frame, A_MOMENT);
        self.shown = 0;
    }
}
