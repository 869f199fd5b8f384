//! Prompts for passwords: `zc-pv f | sudo dd of=/dev/sdx` draws on the terminal that sudo asks on.

use std::time::Duration;

use super::{Row, Screen, frame};
use crate::pv::titles;

impl Screen {
    /// Whether the terminal does not echo the keyboard: another program asks for a password, and keeps the screen.
    ///
    /// `-f` draws regardless, for terminals that never echo, such as the shell of an editor. A display with its own row
    /// still waits, because it cannot ask for the position of the cursor.
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
    pub(super) fn put_frame(&mut self, frame: &[u8], patience: Duration) -> bool {
        let is_forced = self.setup.force && !matches!(self.row, Row::Own(_));
        if is_forced || !self.tty.is_terminal() {
            self.tty.put(frame, patience)
        } else {
            self.tty.put_while_echoing(frame, patience)
        }
    }

    /// Leaves the screen to a prompt. The cursor may stand behind it.
    pub(super) fn give_way(&mut self) {
        self.lose_the_screen();
        self.is_behind_prompt = true;
    }

    /// Leaves lines below a prompt, and the cursor below them.
    pub(super) fn leave_below(&mut self, lines: &[String], patience: Duration) {
        let frame = if self.has_sequences() {
            frame::below(lines, self.tty.size().unwrap_or(self.size).columns)
        } else {
            format!("{}\n", lines.join("\n")).into_bytes()
        };
        let has_tab = lines.iter().any(|line| line.contains(titles::TAB));
        if self.tty.put(&frame, patience) && has_tab {
            self.at_the_end(titles::NO_TAB);
        }
        self.lose_the_screen();
        if let Row::Own(rows) = &mut self.row {
            // The terminal may have scrolled the rows of the other displays up.
            rows.forget();
        }
        self.has_drawn = false;
    }
}
