//! One line of a terminal, drawn again and again in place.

use std::borrow::Cow;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::rows::{Rows, Turn};
use super::text::{self, width};
use super::titles;
use crate::look::Look;
use crate::tty::{Size, Tty};

pub use several::Several;

mod several;
use frame::Before;

mod end;
mod frame;
mod message;
mod prompt;

/// How long a frame may wait for room before it is left out. The next one is up to date in any case.
const A_MOMENT: Duration = Duration::from_millis(20);

/// How long a terminal that takes nothing, as after ^S, may hold up the end.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a terminal is taken for that does not tell its size, as by pv.
const USUAL: Size = Size {
    columns: 80,
    rows: 25,
};

/// What the user wishes for the display.
#[derive(Debug, Clone, Copy, Default)]
pub struct Setup {
    /// Draw in the background, where there is no terminal, and while the terminal does not echo (`-f`).
    pub force: bool,
    /// Give each display of this terminal its own row (`-c`).
    pub own_row: bool,
    /// Draw between lines that somebody else writes to the same terminal: each line stands below what is there
    /// already.
    pub shares: bool,
    /// The width, whatever the terminal's is (`-w`).
    pub columns: Option<u16>,
    /// The height, whatever the terminal's is (`-H`).
    pub rows: Option<u16>,
}

/// Where the display is drawn. The cursor is hidden only within a frame.
///
/// Nothing is drawn while the terminal does not echo the keyboard, because another program asks for a password or uses
/// the whole screen. If that is still so at the end, the last line stands below the prompt.
#[derive(Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact about the screen, independent of the others"
)]
pub struct Screen {
    tty: Tty,
    setup: Setup,
    look: Look,
    size: Size,
    /// How many columns the line takes that stands on the screen.
    shown: usize,
    has_drawn: bool,
    /// Whether what stands there may have been broken over several rows.
    is_broken: bool,
    /// Whether the last line is no longer the last on the screen.
    is_written_over: bool,
    /// Whether the cursor may stand behind a prompt, which the next line is not to overwrite.
    is_behind_prompt: bool,
    /// A line that the terminal had no room for, or that would have overwritten a prompt.
    undrawn: Option<String>,
    row: Row,
    /// What is to be sent when all is over: the window's old title, no progress in its tab.
    at_the_end: Vec<&'static str>,
    /// Until when the end may wait for the terminal.
    deadline: Option<Instant>,
}

/// Which row the line is drawn on.
#[derive(Debug)]
enum Row {
    /// The cursor's.
    Any,
    /// Our own, when there is something to draw.
    Wanted,
    Own(Rows),
}

impl Screen {
    /// Draws on standard error, as the environment allows.
    ///
    /// # Errors
    ///
    /// That standard error is closed.
    pub fn on_stderr(setup: Setup) -> io::Result<Self> {
        Self::on(rustix::stdio::stderr(), setup, Look::of_environment())
    }

    /// Draws where a descriptor leads.
    ///
    /// # Errors
    ///
    /// That the descriptor cannot be duplicated.
    pub fn on(fd: BorrowedFd<'_>, setup: Setup, look: Look) -> io::Result<Self> {
        let mut screen = Self {
            tty: Tty::on(fd)?,
            setup,
            look,
            size: USUAL,
            shown: 0,
            has_drawn: false,
            is_broken: false,
            is_written_over: true,
            is_behind_prompt: false,
            undrawn: None,
            row: Row::Any,
            at_the_end: Vec::new(),
            deadline: None,
        };
        // A terminal of no abilities has no rows, only a line.
        if setup.own_row && screen.has_sequences() {
            screen.row = Row::Wanted;
        }
        screen.measure();
        Ok(screen)
    }

    /// Whether there will be a display at all: on a terminal, or by force.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.setup.force || self.tty.is_terminal()
    }

    /// Whether a frame would be drawn now: not in the background, where the screen is somebody else's.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.setup.force || (self.tty.is_terminal() && self.tty.is_ours())
    }

    /// How many columns and rows there are for a line, and for all of them.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// What may be shown.
    #[must_use]
    pub fn look(&self) -> Look {
        let is_terminal = self.tty.is_terminal();
        Look {
            colour: self.look.colour && self.is_wanted(),
            sequences: self.look.sequences && is_terminal,
            ..self.look
        }
    }

    /// Whether a line stands on the screen, or did before the process was stopped.
    #[must_use]
    pub fn has_drawn(&self) -> bool {
        self.has_drawn
    }

    /// Takes note that somebody has written to the terminal that this is [shared](Setup::shares) with.
    pub fn is_written_over(&mut self) {
        self.is_written_over = true;
    }

    /// Whether others may draw below this line, where messages after the end would stand in their way.
    #[must_use]
    pub fn has_own_row(&self) -> bool {
        self.has_drawn && matches!(self.row, Row::Own(_))
    }

    /// Registers for a row of its own, if that is wished for. Whoever does so first is above.
    ///
    /// To be called when the program begins: its first frame may be a long time off.
    pub fn begin(&mut self) {
        if matches!(self.row, Row::Wanted) {
            // Without the file that tells of the others, the display is as it is without them.
            self.row = Rows::join(&self.tty).map_or(Row::Any, Row::Own);
        }
    }

    /// Draws the line over the one before, by one write. One that the terminal has no room for is left out, and one
    /// in the background or during a prompt too.
    pub fn draw(&mut self, line: &str) {
        if !self.is_ours() {
            self.lose_the_screen();
            return;
        }
        let line = &*self.fitting(line);
        let patience = self.tty.unless_clogged(A_MOMENT);
        let is_drawn = !self.hides_typing() && self.try_draw(line, patience);
        if !is_drawn && self.hides_typing() {
            self.give_way();
        }
        self.undrawn = (!is_drawn).then(|| line.to_owned());
    }

    /// Gives the terminal's window a title, and has it get its old one back.
    pub fn title_window(&mut self, title: &str) {
        if !self.is_ours() || self.hides_typing() {
            return;
        }
        let mut frame = String::new();
        if self.tty.is_terminal() && !self.at_the_end.contains(&titles::OLD_WINDOW) {
            frame.push_str(titles::KEEP_WINDOW);
        }
        frame.push_str(&titles::window(title));
        if self.put_frame(frame.as_bytes(), A_MOMENT) && self.tty.is_terminal() {
            self.at_the_end(titles::OLD_WINDOW);
        }
    }

    /// Looks how large the terminal is now. To be called when it may have been resized, and on the way back into
    /// the foreground.
    pub fn measure(&mut self) {
        let now = self.tty.size();
        // Some terminals then break what is too long for a row, and some cut it off.
        self.is_broken |= now.is_some_and(|now| usize::from(now.columns) < self.shown);
        let now = now.unwrap_or(USUAL);
        self.size = Size {
            columns: self.setup.columns.unwrap_or(now.columns),
            rows: self.setup.rows.unwrap_or(now.rows),
        };
    }

    /// Leaves the screen to the shell, before a pause. The next frame is drawn wherever the cursor is then.
    pub fn pause(&mut self) {
        if self.shown > 0
            && self.is_ours()
            && let Row::Own(rows) = &mut self.row
        {
            rows.pause(&mut self.tty, self.size, A_MOMENT);
            self.shown = 0;
        }
        self.lose_the_screen();
        self.tty.flush(A_MOMENT);
    }

    /// Takes the terminal for this wide and this high from now on, as far as that is given.
    pub fn resize(&mut self, columns: Option<u16>, rows: Option<u16>) {
        self.setup.columns = columns.or(self.setup.columns);
        self.setup.rows = rows.or(self.setup.rows);
        self.measure();
    }

    /// Somebody else writes to the terminal from now on.
    fn lose_the_screen(&mut self) {
        self.is_written_over = true;
        if self.shown > 0 {
            self.shown = 0;
            self.is_broken = false;
            if let Row::Own(rows) = &mut self.row {
                rows.forget();
            }
        }
    }

    /// Whether what somebody else writes stands between our lines. A row of our own is nobody else's.
    fn shares(&self) -> bool {
        self.setup.shares && !self.setup.own_row && self.has_sequences()
    }

    fn has_sequences(&self) -> bool {
        self.look.sequences && self.tty.is_terminal()
    }

    fn at_the_end(&mut self, sequence: &'static str) {
        if !self.at_the_end.contains(&sequence) {
            self.at_the_end.push(sequence);
        }
    }

    fn try_draw(&mut self, line: &str, patience: Duration) -> bool {
        self.begin();
        let turn = match &mut self.row {
            Row::Own(rows) => rows.turn(&mut self.tty, self.size, patience),
            Row::Any | Row::Wanted => Some(Turn::Anywhere),
        };
        let Some(turn) = turn else {
            return false;
        };
        let frame = self.frame(line, turn);
        let is_drawn = self.put_frame(&frame, patience);
        if is_drawn {
            self.deadline = None;
            self.shown = width(line);
            self.is_written_over = false;
            self.has_drawn = true;
            self.is_broken = false;
            self.is_behind_prompt = false;
            if let Row::Own(rows) = &mut self.row {
                rows.has_drawn(line);
            }
            if line.contains(titles::TAB) {
                self.at_the_end(titles::NO_TAB);
            }
        }
        self.give_turn_back();
        is_drawn
    }

    /// The line, cut if the terminal has become narrower since it was made. The signal that tells of a resize may still be
    /// on its way.
    fn fitting<'a>(&mut self, line: &'a str) -> Cow<'a, str> {
        let columns = self.size.columns;
        self.measure();
        if self.size.columns < columns {
            text::cut(line, self.size.columns.into()).into()
        } else {
            line.into()
        }
    }

    /// What turns the screen as it is into one that shows the line.
    fn frame(&self, line: &str, turn: Turn) -> Vec<u8> {
        if !self.has_sequences() {
            return frame::plain(line, self.shown);
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
        frame::in_place(line, turn, before)
    }

    /// The first row of all displays and the lowest, if each has one and it is our turn.
    fn take_turn(&mut self, patience: Duration) -> Option<(u16, u16)> {
        let Row::Own(rows) = &mut self.row else {
            return None;
        };
        match rows.turn(&mut self.tty, self.size, patience)? {
            Turn::Row { first, lowest, .. } => Some((first, lowest)),
            Turn::Anywhere => None,
        }
    }

    fn give_turn_back(&mut self) {
        if let Row::Own(rows) = &mut self.row {
            rows.give_back(&mut self.tty);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A frame of which the terminal has taken a part has hidden the cursor. After the end it has had its time.
        if self.deadline.is_none() {
            self.tty.flush(PATIENCE);
        }
    }
}
