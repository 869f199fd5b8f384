//! The end of a display.

use std::time::Instant;

use crossterm::QueueableCommand as _;
use crossterm::cursor::MoveTo;

use super::{EXIT_TIMEOUT, Row, Screen, WRITE_TIMEOUT};

impl Screen {
    /// Ends the display. Its last line stays, with the cursor below it.
    ///
    /// Waits for the terminal for at most a second, and then leaves it as it is.
    pub fn finish(&mut self) {
        let deadline = *self
            .deadline
            .get_or_insert_with(|| Instant::now() + EXIT_TIMEOUT);
        let timeout = || deadline.saturating_duration_since(Instant::now());
        if let Some(line) = self.undrawn.take()
            && self.is_foreground()
        {
            let is_drawn = !self.hides_typing() && self.try_draw(&line, timeout());
            if !is_drawn && self.hides_typing() {
                self.leave_below(&[line], timeout());
            }
        }
        let mut frame = Vec::new();
        if self.has_drawn && self.is_foreground() {
            let slot = self.acquire_slot(timeout());
            match (&mut self.row, slot) {
                (Row::Own(rows), slot) if rows.others() > 0 => {
                    if let Some((first, _)) = slot {
                        rows.leave_line();
                        let _ = frame.queue(MoveTo(0, first));
                    }
                }
                (_, slot) => {
                    if let Some((_, lowest)) = slot {
                        let _ = frame.queue(MoveTo(0, lowest));
                    }
                    if !self.shares() {
                        frame.push(b'\n');
                    }
                }
            }
        }
        for sequence in self.reset_sequences.drain(..) {
            frame.extend_from_slice(sequence.as_bytes());
        }
        if !frame.is_empty() {
            let _ = self.tty.put(&frame, timeout());
        }
        self.tty.flush(timeout());
        // This process still holds the lock, so that of two displays that end at the same time one
        // is the last.
        self.row = Row::Any;
        self.has_drawn = false;
        self.shown = 0;
    }

    /// Gives the end a whole second again.
    pub fn begin_end(&mut self) {
        self.deadline = None;
    }

    /// Writes pending messages, in the rest of the second that the end may take.
    pub fn close(&mut self) {
        let deadline = *self
            .deadline
            .get_or_insert_with(|| Instant::now() + EXIT_TIMEOUT);
        let timeout = deadline.saturating_duration_since(Instant::now());
        self.tty.flush(timeout.max(WRITE_TIMEOUT));
    }
}
