//! How the display ends.

use std::time::Instant;

use crossterm::QueueableCommand as _;
use crossterm::cursor::MoveTo;

use super::{A_MOMENT, PATIENCE, Row, Screen};

impl Screen {
    /// Ends the display: its last line stays, the cursor stands below it.
    ///
    /// A terminal that takes nothing is given a second, and then left as it is.
    pub fn finish(&mut self) {
        let deadline = *self
            .deadline
            .get_or_insert_with(|| Instant::now() + PATIENCE);
        let patience = || deadline.saturating_duration_since(Instant::now());
        if let Some(line) = self.undrawn.take()
            && self.is_ours()
        {
            let is_drawn = !self.hides_typing() && self.try_draw(&line, patience());
            if !is_drawn && self.hides_typing() {
                self.leave_below(&[line], patience());
            }
        }
        let mut frame = Vec::new();
        if self.has_drawn && self.is_ours() {
            let turn = self.take_turn(patience());
            match (&mut self.row, turn) {
                (Row::Own(rows), turn) if rows.others() > 0 => {
                    if let Some((first, _)) = turn {
                        rows.leave_line();
                        let _ = frame.queue(MoveTo(0, first));
                    }
                }
                (_, turn) => {
                    if let Some((_, lowest)) = turn {
                        let _ = frame.queue(MoveTo(0, lowest));
                    }
                    if !self.shares() {
                        frame.push(b'\n');
                    }
                }
            }
        }
        for sequence in self.at_the_end.drain(..) {
            frame.extend_from_slice(sequence.as_bytes());
        }
        if !frame.is_empty() {
            let _ = self.tty.put(&frame, patience());
        }
        self.tty.flush(patience());
        // While it is still our turn, so that of two that end together one is the last.
        self.row = Row::Any;
        self.has_drawn = false;
        self.shown = 0;
    }

    /// Gives what was said last, of the second that the end may take, what is left.
    pub fn close(&mut self) {
        let deadline = *self
            .deadline
            .get_or_insert_with(|| Instant::now() + PATIENCE);
        let patience = deadline.saturating_duration_since(Instant::now());
        self.tty.flush(patience.max(A_MOMENT));
    }
}
