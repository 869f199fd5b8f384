//! Several lines, drawn again and again in place.

use crossterm::QueueableCommand as _;
use crossterm::cursor::{MoveToNextLine, MoveUp};
use crossterm::terminal::{Clear, ClearType};

use super::super::text::width;
use super::frame::{self, fresh_line, put};
use super::{A_MOMENT, PATIENCE, Screen};

/// A screen whose display has a row for each of several lines. More or fewer may come with every frame.
#[derive(Debug)]
pub struct Several {
    screen: Screen,
    /// How many rows stand there. The cursor waits on the lowest.
    standing: u16,
    /// Lines that the terminal had no room for, or that would have overwritten a prompt.
    undrawn: Option<Vec<String>>,
}

impl Several {
    /// Draws on a screen, which must not be one that gives each display its own row.
    #[must_use]
    pub fn on(screen: Screen) -> Self {
        Self {
            screen,
            standing: 0,
            undrawn: None,
        }
    }

    /// The screen, to be asked about.
    #[must_use]
    pub fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Draws the lines over those before, by one write, as far as there are rows. What stands there stays if there
    /// are none. Nothing is drawn during a prompt.
    ///
    /// Where no cursor can be moved, one line is drawn over the one before, and several stand below each other.
    pub fn draw(&mut self, lines: &[String]) {
        if !self.screen.is_ours() {
            self.screen.lose_the_screen();
            self.standing = 0;
            return;
        }
        if !self.screen.has_sequences() && !self.screen.hides_typing() {
            self.draw_plainly(lines);
            return;
        }
        let is_drawn = !self.screen.hides_typing() && self.try_draw(lines);
        if !is_drawn && self.screen.hides_typing() {
            self.screen.give_way();
            self.standing = 0;
        }
        self.undrawn = (!is_drawn).then(|| lines.to_vec());
    }

    /// Writes a message above the display, which follows with its next frame.
    pub fn say(&mut self, message: &str) {
        if self.standing > 1 && self.screen.is_ours() && !self.screen.hides_typing() {
            let mut frame = Vec::new();
            self.begin(&mut frame);
            let _ = frame.queue(Clear(ClearType::FromCursorDown));
            frame.extend_from_slice(message.as_bytes());
            frame.push(b'\n');
            let _ = self.screen.tty.put(&frame, PATIENCE);
            self.screen.shown = 0;
        } else {
            self.screen.say(message);
        }
        self.standing = 0;
    }

    /// Looks how large the terminal is now.
    pub fn measure(&mut self) {
        self.screen.measure();
    }

    /// Leaves the screen to the shell, before a pause. The next frame is drawn below.
    pub fn pause(&mut self) {
        self.screen.pause();
        self.standing = 0;
    }

    /// Ends the display: its last lines stay, the cursor stands below them.
    pub fn finish(&mut self) {
        if let Some(lines) = self.undrawn.take()
            && self.screen.is_ours()
            && self.screen.tty.flush(PATIENCE)
        {
            let is_drawn = !self.screen.hides_typing() && self.try_draw(&lines);
            if !is_drawn && self.screen.hides_typing() {
                self.screen.leave_below(&lines, PATIENCE);
            }
        }
        self.screen.finish();
        self.standing = 0;
    }

    /// Gives what was said last, of the second that the end may take, what is left.
    pub fn close(&mut self) {
        self.screen.close();
    }

    fn draw_plainly(&mut self, lines: &[String]) {
        match lines {
            [line] => self.screen.draw(line),
            lines => {
                for line in lines {
                    self.screen.say(line);
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
        // The rows are made first: a frame that hides the cursor has no line feeds.
        let n_below = lines.len() as u16 - 1;
        if n_below > 0 {
            frame.extend(std::iter::repeat_n(b'\n', n_below.into()));
            let _ = frame.queue(MoveUp(n_below));
        }
        let frame = frame::without_cursor(frame, |frame| {
            for (index, line) in lines.iter().enumerate() {
                if index > 0 {
                    let _ = frame.queue(MoveToNextLine(1));
                }
                put(frame, line, size.columns);
            }
            frame.push(b'\r');
        });
        let is_drawn = self.screen.put_frame(&frame, A_MOMENT);
        if is_drawn {
            self.standing = lines.len() as u16;
            // Even an empty line is one that somebody else may write over.
            self.screen.shown = width(last).max(1);
            self.screen.has_drawn = true;
            self.screen.is_broken = false;
            self.screen.is_behind_prompt = false;
        }
        is_drawn
    }

    /// Goes to the beginning of the first line.
    fn begin(&self, frame: &mut Vec<u8>) {
        frame.push(b'\r');
        if self.standing > 1 {
            let _ = frame.queue(MoveUp(self.standing - 1));
        }
    }
}
