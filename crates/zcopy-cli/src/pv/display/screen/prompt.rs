//! Prompts for passwords on the terminal of the display: `zc-pv f | sudo dd of=/dev/sdx`.

use std::time::Duration;

use super::{Row, Screen};
use crate::common::terminal::frame;
use crate::pv::display::title;

impl Screen {
    /// Returns whether the terminal does not echo the keyboard, because another program asks for a
    /// password.
    ///
    /// Returns false with `-f`, for terminals that never echo, such as the shell of an editor. A
    /// display with its own row still waits, because it cannot query the position of the cursor.
    pub(super) fn hides_typing(&mut self) -> bool {
        if !self.tty.is_terminal() {
            return false;
        }
        match &mut self.row {
            Row::Own(rows) => rows.hides_typing(&self.tty),
            Row::Any | Row::Wanted => !self.setup.force && !self.tty.echoes(),
        }
    }

    /// Draws a frame, unless the terminal has stopped echoing since [`Screen::hides_typing`] asked.
    pub(super) fn put_frame(&mut self, frame: &[u8], timeout: Duration) -> bool {
        let is_forced = self.setup.force && !matches!(self.row, Row::Own(_));
        if is_forced || !self.tty.is_terminal() {
            self.tty.put(frame, timeout)
        } else {
            self.tty.put_while_echoing(frame, timeout)
        }
    }

    /// Leaves the screen to a prompt. The cursor may be behind it.
    pub(super) fn yield_to_prompt(&mut self) {
        self.leave_screen();
        self.is_behind_prompt = true;
    }

    /// Writes lines below a prompt, with the cursor below them.
    pub(super) fn leave_below(&mut self, lines: &[String], timeout: Duration) {
        let frame = if self.has_sequences() {
            frame::below(lines, self.tty.size().unwrap_or(self.size).columns)
        } else {
            format!("{}\n", lines.join("\n")).into_bytes()
        };
        let has_tab = lines.iter().any(|line| line.contains(title::TAB_PREFIX));
        if self.tty.put(&frame, timeout) && has_tab {
            self.add_reset_sequence(title::CLEAR_TAB);
        }
        self.leave_screen();
        if let Row::Own(rows) = &mut self.row {
            // The terminal may have scrolled the rows of the other displays up.
            rows.forget();
        }
        self.has_drawn = false;
    }
}
