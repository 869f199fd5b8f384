//! The end of a display.

use std::time::Instant;

use crossterm::QueueableCommand as _;
use crossterm::cursor::MoveTo;

use super::{EXIT_TIMEOUT, Row, Screen, WRITE_TIMEOUT};

/// The time that the end of a display takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EndTime {
    pub(super) deadline: Option<Instant>,
    /// The time at which the end gave up to wait for a reader.
    gave_up: Option<Instant>,
    /// Whether another display has waited for the same reader in vain.
    is_spent: bool,
}

impl EndTime {
    /// Returns the deadline, a second from now if there is none yet.
    fn begin(&mut self) -> Instant {
        *self
            .deadline
            .get_or_insert_with(|| Instant::now() + EXIT_TIMEOUT)
    }

    /// Records whether the reader has accepted everything before the deadline.
    fn note(&mut self, is_accepted: bool) {
        self.gave_up = (!is_accepted && !self.is_spent).then(Instant::now);
    }
}

impl Screen {
    /// Ends the display. Its last line stays, with the cursor below it.
    ///
    /// Waits for the terminal for at most a second, and then leaves it as it is.
    pub fn finish(&mut self) {
        let deadline = self.end.begin();
        let timeout = || deadline.saturating_duration_since(Instant::now());
        let mut is_accepted = true;
        if let Some(line) = self.undrawn.take()
            && self.is_foreground()
        {
            let is_drawn = !self.hides_typing() && self.try_draw(&line, timeout());
            if !is_drawn && self.hides_typing() {
                self.leave_below(&[line], timeout());
            } else {
                is_accepted = is_drawn;
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
            is_accepted &= self.tty.put(&frame, timeout());
        }
        is_accepted &= self.tty.flush(timeout());
        self.end.note(is_accepted);
        // This process still holds the lock, so that of two displays that end at the same time one
        // is the last.
        self.row = Row::Any;
        self.has_drawn = false;
        self.shown = 0;
    }

    /// Gives the end a whole second again, unless another display has just waited for the reader.
    pub fn begin_end(&mut self) {
        if !self.end.is_spent {
            self.end.deadline = None;
        }
    }

    /// Takes no time for the end if the end of the other display on the same terminal has waited for
    /// its reader in vain, up to a second ago. Of two ends at the same time only one waits.
    pub fn share_end(&mut self, other: &Self) {
        let now = Instant::now();
        let gave_up = other.end.gave_up;
        self.end.is_spent = gave_up.is_some_and(|then| now < then + EXIT_TIMEOUT);
        if self.end.is_spent {
            self.end.deadline = Some(now);
        }
    }

    /// Writes pending messages, in the rest of the second that the end may take.
    pub fn close(&mut self) {
        let timeout = self.end.begin().saturating_duration_since(Instant::now());
        let is_accepted = self.tty.flush(timeout.max(WRITE_TIMEOUT));
        self.end.note(is_accepted);
    }
}
