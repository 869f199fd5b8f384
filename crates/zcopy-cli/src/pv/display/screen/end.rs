//! The end of a display.

use std::time::Instant;

use crossterm::QueueableCommand as _;
use crossterm::cursor::MoveTo;

use super::{EXIT_TIMEOUT, Row, Screen, WRITE_TIMEOUT};

/// Until when a display that ends waits for its reader.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExitDeadline {
    pub(super) deadline: Option<Instant>,
    /// When this display gave up to wait for its reader.
    gave_up_at: Option<Instant>,
    /// When the other display gave up to wait for the same reader.
    other_gave_up_at: Option<Instant>,
}

impl ExitDeadline {
    /// Returns the deadline. The first call sets it to a second from now. If the other display has
    /// just given up, the deadline is now.
    fn begin(&mut self, now: Instant) -> Instant {
        if self.is_hopeless(now) {
            return *self.deadline.insert(now);
        }
        *self.deadline.get_or_insert(now + EXIT_TIMEOUT)
    }

    /// Returns whether the other display has waited in vain, up to a second ago.
    fn is_hopeless(&self, now: Instant) -> bool {
        let gave_up_at = self.other_gave_up_at;
        gave_up_at.is_some_and(|then| now < then + EXIT_TIMEOUT)
    }

    /// Records whether the reader has accepted everything before the deadline. If this display did
    /// not wait, the reader may still come back.
    fn record(&mut self, is_accepted: bool, now: Instant) {
        self.gave_up_at = (!is_accepted && !self.is_hopeless(now)).then_some(now);
    }
}

impl Screen {
    /// Ends the display. Its last line stays, with the cursor below it.
    ///
    /// Waits for the terminal for at most a second, and then leaves it as it is.
    pub fn finish(&mut self) {
        let deadline = self.exit.begin(Instant::now());
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
        self.exit.record(is_accepted, Instant::now());
        // This process still holds the lock, so that of two displays that end at the same time one
        // is the last.
        self.row = Row::Any;
        self.has_drawn = false;
        self.shown = 0;
    }

    /// Gives the end a whole second again, unless the other display has just waited for the reader.
    pub fn begin_end(&mut self) {
        self.exit.deadline = None;
    }

    /// Takes no time for the end if the other display has waited for the same reader in vain, up to a
    /// second ago. Of two ends at the same time only one waits.
    pub fn end_beside(&mut self, other: &Self) {
        self.exit.other_gave_up_at = other.exit.gave_up_at;
    }

    /// Writes pending messages, in the rest of the second that the end may take.
    pub fn close(&mut self) {
        let now = Instant::now();
        let timeout = self.exit.begin(now).saturating_duration_since(now);
        let is_accepted = self.tty.flush(timeout.max(WRITE_TIMEOUT));
        self.exit.record(is_accepted, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each side of a command waited two seconds for the reader of standard error, one after the
    /// other.
    #[test]
    fn of_two_ends_one_waits_for_a_reader_that_accepts_nothing() {
        let begin = Instant::now();
        let (mut first, mut second) = (ExitDeadline::default(), ExitDeadline::default());
        let gave_up_at = first.begin(begin);
        assert_eq!(gave_up_at, begin + EXIT_TIMEOUT);
        first.record(false, gave_up_at);
        second.other_gave_up_at = first.gave_up_at;
        assert_eq!(second.begin(gave_up_at), gave_up_at);
        // It did not wait, so that the first one may do so again.
        second.record(false, gave_up_at);
        assert_eq!(second.gave_up_at, None);
        // The reader may have come back since.
        second.deadline = None;
        let later = gave_up_at + EXIT_TIMEOUT;
        assert_eq!(second.begin(later), later + EXIT_TIMEOUT);
    }

    #[test]
    fn a_reader_that_accepts_all_leaves_the_other_end_its_second() {
        let begin = Instant::now();
        let (mut first, mut second) = (ExitDeadline::default(), ExitDeadline::default());
        first.begin(begin);
        first.record(true, begin);
        second.other_gave_up_at = first.gave_up_at;
        assert_eq!(second.begin(begin), begin + EXIT_TIMEOUT);
    }
}
