//! Several lines, redrawn in place.

use crossterm::QueueableCommand as _;
use crossterm::cursor::{MoveToNextLine, MoveUp};
use crossterm::terminal::{Clear, ClearType};

use super::{EXIT_TIMEOUT, Screen, WRITE_TIMEOUT};
use crate::common::terminal::ansi::width;
use crate::common::terminal::frame::{fresh_line, put, without_cursor};

/// A screen with several lines, one row each. Each frame may have more or fewer lines.
#[derive(Debug)]
pub struct MultiLineScreen {
    screen: Screen,
    /// The number of rows on the screen. The cursor is on the lowest.
    standing: u16,
    /// Lines that were not drawn, because the terminal had no room or showed a prompt.
    undrawn: Option<Vec<String>>,
}

impl MultiLineScreen {
    /// Creates a screen with several lines. `screen` must not have rows of its own.
    #[must_use]
    pub fn on(screen: Screen) -> Self {
        Self {
            screen,
            standing: 0,
            undrawn: None,
        }
    }

    /// Returns the screen, for its properties.
    #[must_use]
    pub fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Draws the lines over those before, by one write, as many as there are rows. If there are no
    /// lines, the screen stays as it is. Nothing is drawn during a prompt.
    ///
    /// If the cursor cannot be moved, a single line is drawn over the one before, and several lines
    /// are written below each other.
    pub fn draw(&mut self, lines: &[String]) {
        if !self.screen.is_foreground() {
            self.screen.leave_screen();
            self.standing = 0;
            return;
        }
        if !self.screen.has_sequences() && !self.screen.hides_typing() {
            self.draw_plainly(lines);
            return;
        }
        let is_drawn = !self.screen.hides_typing() && self.try_draw(lines);
        if !is_drawn && self.screen.hides_typing() {
            self.screen.yield_to_prompt();
            self.standing = 0;
        }
        self.undrawn = (!is_drawn).then(|| lines.to_vec());
    }

    /// Writes a message above the display. The next frame follows below.
    pub fn write_message(&mut self, message: &str) {
        if self.standing > 1 && self.screen.is_foreground() && !self.screen.hides_typing() {
            let mut frame = Vec::new();
            self.begin(&mut frame);
            let _ = frame.queue(Clear(ClearType::FromCursorDown));
            frame.extend_from_slice(message.as_bytes());
            frame.push(b'\n');
            let _ = self.screen.tty.put(&frame, EXIT_TIMEOUT);
            self.screen.shown = 0;
        } else {
            self.screen.write_message(message);
        }
        self.standing = 0;
    }

    /// Reads the size of the terminal.
    pub fn measure(&mut self) {
        self.screen.measure();
    }

    /// Leaves the screen to the shell before a pause. The next frame is drawn below.
    pub fn pause(&mut self) {
        self.screen.pause();
        self.standing = 0;
    }

    /// Ends the display. Its last lines stay, with the cursor below them.
    pub fn finish(&mut self) {
        if let Some(lines) = self.undrawn.take()
            && self.screen.is_foreground()
            && self.screen.tty.flush(EXIT_TIMEOUT)
        {
            let is_drawn = !self.screen.hides_typing() && self.try_draw(&lines);
            if !is_drawn && self.screen.hides_typing() {
                self.screen.leave_below(&lines, EXIT_TIMEOUT);
            }
        }
        self.screen.finish();
        self.standing = 0;
    }

    /// Writes pending messages, in the rest of the second that the end may take.
    pub fn close(&mut self) {
        self.screen.close();
    }

    fn draw_plainly(&mut self, lines: &[String]) {
        match lines {
            [line] => self.screen.draw(line),
            lines => {
                for line in lines {
                    self.screen.write_message(line);
                }
            }
        }
    }

    fn try_draw(&mut self, lines: &[String]) -> bool {
        let size = self.screen.tty.size().unwrap_or(self.screen.size);
        let rows = size.rows.min(self.screen.size.rows);
        let lines = &lines[..lines.len().min(rows.into())];
        let Some(last) = lines.last() else {
            return true;
        };
        let mut frame = Vec::new();
        if self.screen.is_behind_prompt {
            frame.extend_from_slice(&fresh_line(size.columns));
        }
        self.begin(&mut frame);
        if self.screen.is_broken || lines.len() < self.standing.into() {
            let _ = frame.queue(Clear(ClearType::FromCursorDown));
        }
        // Line feeds make the rows first: a frame that hides the cursor has none.
        let n_below = lines.len() as u16 - 1;
        if n_below > 0 {
            frame.extend(std::iter::repeat_n(b'\n', n_below.into()));
            let _ = frame.queue(MoveUp(n_below));
        }
        let frame = without_cursor(frame, |frame| {
            for (index, line) in lines.iter().enumerate() {
                if index > 0 {
                    let _ = frame.queue(MoveToNextLine(1));
                }
                put(frame, line, size.columns);
            }
            frame.push(b'\r');
        });
        let is_drawn = self.screen.put_frame(&frame, WRITE_TIMEOUT);
        if is_drawn {
            self.standing = lines.len() as u16;
            // Another program may write over an empty line, too.
            self.screen.shown = width(last).max(1);
            self.screen.has_drawn = true;
            self.screen.is_broken = false;
            self.screen.is_behind_prompt = false;
        }
        is_drawn
    }

    /// Moves the cursor to the beginning of the first line.
    fn begin(&self, frame: &mut Vec<u8>) {
        frame.push(b'\r');
        if self.standing > 1 {
            let _ = frame.queue(MoveUp(self.standing - 1));
        }
    }
}
