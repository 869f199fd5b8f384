//! One line of a terminal, redrawn in place.

use std::borrow::Cow;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::common::terminal::ansi::{self, width};
use crate::common::terminal::capabilities::Capabilities;
use crate::common::terminal::frame::plain;
use crate::common::terminal::tty::{Size, Tty};
use crate::pv::display::shared_rows::{Rows, Slot};
use crate::pv::display::title;

pub use multi_line::MultiLineScreen;

mod multi_line;
use end::ExitDeadline;
use frame::Before;

mod end;
mod frame;
mod message;
mod prompt;

/// The longest time that a frame waits for room. After that it is left out, because the next one is
/// more recent.
const WRITE_TIMEOUT: Duration = Duration::from_millis(20);

/// The longest time that a terminal that accepts nothing, as after ^S, delays the end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The size that is assumed if the terminal does not tell it, as by pv.
const DEFAULT_SIZE: Size = Size {
    columns: 80,
    rows: 25,
};

/// The options of the display.
#[derive(Debug, Clone, Copy, Default)]
pub struct Setup {
    /// Draw in the background, without a terminal, and while the terminal does not echo (`-f`).
    pub force: bool,
    /// Give each display of this terminal its own row (`-c`).
    pub own_row: bool,
    /// Draw between lines that another program writes to the same terminal: each line is below the
    /// existing ones.
    pub shares: bool,
    /// The width, instead of the terminal's (`-w`).
    pub columns: Option<u16>,
    /// The height, instead of the terminal's (`-H`).
    pub rows: Option<u16>,
}

/// A screen with one line. The cursor is hidden only within a frame.
///
/// Nothing is drawn while the terminal does not echo the keyboard, because another program asks for
/// a password or uses the whole screen. If this is still so at the end, the last line is written
/// below the prompt.
#[derive(Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact about the screen, independent of the others"
)]
pub struct Screen {
    tty: Tty,
    setup: Setup,
    capabilities: Capabilities,
    size: Size,
    /// The width of the line on the screen.
    shown: usize,
    has_drawn: bool,
    /// Whether the line on the screen may have been broken over several rows.
    is_broken: bool,
    /// Whether other output has come below the line.
    is_written_over: bool,
    /// Whether the cursor may be behind a prompt, which the next line must not overwrite.
    is_behind_prompt: bool,
    /// A line that was not drawn, because the terminal had no room or showed a prompt.
    undrawn: Option<String>,
    row: Row,
    /// The sequences for the end: they restore the window's title and clear the progress in its
    /// tab.
    reset_sequences: Vec<&'static str>,
    exit: ExitDeadline,
}

/// The row of the line.
#[derive(Debug)]
enum Row {
    /// The row of the cursor.
    Any,
    /// A row of this display, which is not reserved yet.
    Wanted,
    Own(Rows),
}

impl Screen {
    /// Creates a screen on standard error, with the capabilities of the environment.
    ///
    /// # Errors
    ///
    /// Returns an error if standard error is closed.
    pub fn on_stderr(setup: Setup) -> io::Result<Self> {
        Self::on(rustix::stdio::stderr(), setup, Capabilities::from_env())
    }

    /// Creates a screen on a descriptor.
    ///
    /// # Errors
    ///
    /// Returns an error if the descriptor cannot be duplicated.
    pub fn on(fd: BorrowedFd<'_>, setup: Setup, capabilities: Capabilities) -> io::Result<Self> {
        let mut screen = Self {
            tty: Tty::on(fd)?,
            setup,
            capabilities,
            size: DEFAULT_SIZE,
            shown: 0,
            has_drawn: false,
            is_broken: false,
            is_written_over: true,
            is_behind_prompt: false,
            undrawn: None,
            row: Row::Any,
            reset_sequences: Vec::new(),
            exit: ExitDeadline::default(),
        };
        // Without escape sequences the display has a line, and no row.
        if setup.own_row && screen.has_sequences() {
            screen.row = Row::Wanted;
        }
        screen.measure();
        Ok(screen)
    }

    /// Returns whether the display is shown at all: on a terminal, or if forced.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.setup.force || self.tty.is_terminal()
    }

    /// Returns whether a frame would be drawn now. In the background the screen belongs to another
    /// process.
    #[must_use]
    pub fn is_foreground(&self) -> bool {
        self.setup.force || (self.tty.is_terminal() && self.tty.is_foreground())
    }

    /// Returns whether the terminal is left to another process, even if this one is to draw all the
    /// same.
    #[must_use]
    pub fn is_background(&self) -> bool {
        !self.tty.is_foreground()
    }

    /// Returns the first error of a write.
    #[must_use]
    pub fn write_error(&self) -> Option<io::Error> {
        self.tty.error()
    }

    /// Returns whether a message was dropped because too many waited for a reader.
    #[must_use]
    pub fn has_dropped(&self) -> bool {
        self.tty.has_dropped()
    }

    /// Returns whether something that was written waits for a reader.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        self.tty.has_pending()
    }

    /// Returns the size of the screen.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// Returns the capabilities of the screen.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let is_terminal = self.tty.is_terminal();
        Capabilities {
            colour: self.capabilities.colour && self.is_wanted(),
            sequences: self.capabilities.sequences && is_terminal,
            ..self.capabilities
        }
    }

    /// Returns whether a line is on the screen, or was before the process was stopped.
    #[must_use]
    pub fn has_drawn(&self) -> bool {
        self.has_drawn
    }

    /// Records that another program has written to the [shared](Setup::shares) terminal.
    pub fn mark_written_over(&mut self) {
        self.is_written_over = true;
    }

    /// Returns whether other displays may draw below this line. Messages after the end would be in
    /// their way.
    #[must_use]
    pub fn has_own_row(&self) -> bool {
        self.has_drawn && matches!(self.row, Row::Own(_))
    }

    /// Reserves a row for `-c`. The process that does so first has the highest row.
    ///
    /// This is called when the program starts, because its first frame may come much later.
    pub fn begin(&mut self) {
        if matches!(self.row, Row::Wanted) {
            // Without the shared file, the display works as if it were alone.
            self.row = Rows::join(&self.tty).map_or(Row::Any, Row::Own);
        }
    }

    /// Draws the line over the one before, by one write. The line is left out if the terminal has
    /// no room for it, in the background, and during a prompt.
    pub fn draw(&mut self, line: &str) {
        if !self.is_foreground() {
            self.leave_screen();
            return;
        }
        let line = &*self.cut_to_width(line);
        let timeout = self.tty.unless_pending(WRITE_TIMEOUT);
        let is_drawn = !self.hides_typing() && self.try_draw(line, timeout);
        if !is_drawn && self.hides_typing() {
            self.yield_to_prompt();
        }
        self.undrawn = (!is_drawn).then(|| line.to_owned());
    }

    /// Sets the title of the terminal's window, and saves the old one for the end.
    pub fn set_window_title(&mut self, title: &str) {
        if !self.is_foreground() || self.hides_typing() {
            return;
        }
        let mut frame = String::new();
        if self.tty.is_terminal() && !self.reset_sequences.contains(&title::RESTORE_TITLE) {
            frame.push_str(title::SAVE_TITLE);
        }
        frame.push_str(&title::window(title));
        if self.put_frame(frame.as_bytes(), WRITE_TIMEOUT) && self.tty.is_terminal() {
            self.add_reset_sequence(title::RESTORE_TITLE);
        }
    }

    /// Reads the size of the terminal, and restores its modes if a query could not. This is called
    /// when the terminal may have been resized, and when the process returns to the foreground.
    pub fn measure(&mut self) {
        self.tty.restore_modes();
        let now = self.tty.size();
        // Some terminals break lines that have become too long, and others cut them off.
        self.is_broken |= now.is_some_and(|now| usize::from(now.columns) < self.shown);
        let now = now.unwrap_or(DEFAULT_SIZE);
        self.size = Size {
            columns: self.setup.columns.unwrap_or(now.columns),
            rows: self.setup.rows.unwrap_or(now.rows),
        };
    }

    /// Leaves the screen to the shell before a pause. The next frame is drawn at the cursor.
    pub fn pause(&mut self) {
        if self.shown > 0
            && self.is_foreground()
            && let Row::Own(rows) = &mut self.row
        {
            rows.pause(&mut self.tty, self.size, WRITE_TIMEOUT);
            self.shown = 0;
        }
        self.leave_screen();
        self.tty.flush(WRITE_TIMEOUT);
    }

    /// Sets the width and the height of the screen, as far as they are given.
    pub fn resize(&mut self, columns: Option<u16>, rows: Option<u16>) {
        self.setup.columns = columns.or(self.setup.columns);
        self.setup.rows = rows.or(self.setup.rows);
        self.measure();
    }

    /// Leaves the screen to another program, which writes to it from now on.
    fn leave_screen(&mut self) {
        self.is_written_over = true;
        if self.shown > 0 {
            self.shown = 0;
            self.is_broken = false;
            if let Row::Own(rows) = &mut self.row {
                rows.forget();
            }
        }
    }

    /// Returns whether the output of another program comes between the lines. No other program
    /// writes to a reserved row.
    fn shares(&self) -> bool {
        self.setup.shares && !self.setup.own_row && self.has_sequences()
    }

    fn has_sequences(&self) -> bool {
        self.capabilities.sequences && self.tty.is_terminal()
    }

    fn add_reset_sequence(&mut self, sequence: &'static str) {
        if !self.reset_sequences.contains(&sequence) {
            self.reset_sequences.push(sequence);
        }
    }

    fn try_draw(&mut self, line: &str, timeout: Duration) -> bool {
        self.begin();
        let slot = match &mut self.row {
            Row::Own(rows) => rows.acquire(&mut self.tty, self.size, timeout),
            Row::Any | Row::Wanted => Some(Slot::Anywhere),
        };
        let Some(slot) = slot else {
            return false;
        };
        let frame = self.frame(line, slot);
        let is_drawn = self.put_frame(&frame, timeout);
        if is_drawn {
            self.exit.deadline = None;
            self.shown = width(line);
            self.is_written_over = false;
            self.has_drawn = true;
            self.is_broken = false;
            self.is_behind_prompt = false;
            if let Row::Own(rows) = &mut self.row {
                rows.set_line(line);
            }
            if line.contains(title::TAB_PREFIX) {
                self.add_reset_sequence(title::CLEAR_TAB);
            }
        }
        self.release_slot();
        is_drawn
    }

    /// Cuts the line if the terminal has become narrower since it was made. The signal for the
    /// resize may come later.
    fn cut_to_width<'a>(&mut self, line: &'a str) -> Cow<'a, str> {
        let columns = self.size.columns;
        self.measure();
        if self.size.columns < columns {
            ansi::cut(line, self.size.columns.into()).into()
        } else {
            line.into()
        }
    }

    /// Returns the bytes that draw the line on the present screen.
    fn frame(&self, line: &str, slot: Slot) -> Vec<u8> {
        if !self.has_sequences() {
            return plain(line, self.shown);
        }
        let before = Before {
            is_broken: self.is_broken,
            columns: self.tty.size().unwrap_or(self.size).columns,
            is_written_over: self.is_written_over || self.is_broken,
            is_behind_prompt: self.is_behind_prompt,
        };
        if self.shares() {
            return frame::between(line, before);
        }
        frame::in_place(line, slot, before)
    }

    /// Returns the first and the lowest row of all displays, if each has a row and this process
    /// could lock the shared file.
    fn acquire_slot(&mut self, timeout: Duration) -> Option<(u16, u16)> {
        let Row::Own(rows) = &mut self.row else {
            return None;
        };
        match rows.acquire(&mut self.tty, self.size, timeout)? {
            Slot::Row { first, lowest, .. } => Some((first, lowest)),
            Slot::Anywhere => None,
        }
    }

    fn release_slot(&mut self) {
        if let Row::Own(rows) = &mut self.row {
            rows.release(&mut self.tty);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A frame that is written in part has hidden the cursor. After the end there is no more
        // time for it.
        if self.exit.deadline.is_none() {
            self.tty.flush(EXIT_TIMEOUT);
        }
    }
}
