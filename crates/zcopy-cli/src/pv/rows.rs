//! Several displays on one terminal, each on its own row.
//!
//! The processes of a pipeline know nothing of each other, but for a file that is named after the terminal. It
//! says which row the first of them draws on. Each holds a byte of it for as long as it lives, so that nothing
//! has to be tidied up after one that was killed; and whoever draws, asks or scrolls holds the whole.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crossterm::QueueableCommand as _;
use crossterm::terminal::{Clear, ClearType};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use crate::sys;
use crate::tty::{Position, Size, Tty};
use table::{Table, Top};

mod layout;
mod table;

/// How long a terminal may take to say where its cursor is: a line around the world, twice over.
const ANSWER: Duration = Duration::from_secs(1);

/// How long the others may need the file for: one of them may be waiting for that answer.
const OTHERS: Duration = Duration::from_millis(1500);

/// How long to sleep before asking again whether the file is free.
const A_LITTLE: Duration = Duration::from_millis(2);

/// How often the file may vanish under our hands, because its last user tidies up.
const ATTEMPTS: usize = 16;

/// The bytes that tell who lives begin here, where the file has no others.
const LIVES: i32 = 1 << 20;

/// A row of this process's own.
#[derive(Debug)]
pub struct Rows {
    file: File,
    path: PathBuf,
    /// How many have registered before us. They are above.
    slot: u16,
    /// Whether we have the file to ourselves just now.
    is_locked: bool,
    /// The last line that we have drawn.
    line: String,
}

/// Where to draw, for as long as the file is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// On a row of our own, counted from 0 at the top as crossterm does; none if it has left the screen.
    Row {
        /// Ours.
        ours: Option<u16>,
        /// The highest on the screen. The cursor waits there, so that it tells where the rows are after a resize.
        first: u16,
        /// The lowest of all rows and of the messages below them.
        lowest: u16,
    },
    /// Wherever the cursor is, because the terminal does not say where that is.
    Anywhere,
}

impl Rows {
    /// Gets the next row of this terminal, and asks where the first is if nobody has.
    ///
    /// # Errors
    ///
    /// That the file cannot be used, or that somebody else needs it for longer than it takes.
    pub fn join(tty: &Tty) -> io::Result<Self> {
        Self::join_in(&directory(), tty)
    }

    /// The same with the file in a directory of the caller's choice.
    ///
    /// # Errors
    ///
    /// As [`Rows::join`].
    pub fn join_in(directory: &Path, tty: &Tty) -> io::Result<Self> {
        let terminal = rustix::fs::fstat(tty)?;
        let user = rustix::process::geteuid().as_raw();
        // The same number may be another terminal in another container.
        let name = format!("zc-pv-{user}-{:x}-{:x}", terminal.st_dev, terminal.st_rdev);
        let path = directory.join(name);
        for _ in 0..ATTEMPTS {
            let mut rows = Self {
                file: open(&path, user)?,
                path: path.clone(),
                slot: 0,
                is_locked: false,
                line: String::new(),
            };
            if !rows.lock(OTHERS) {
                return Err(Errno::WOULDBLOCK.into());
            }
            // Otherwise its last user has removed it between our two calls.
            if rows.file.metadata()?.nlink() > 0 {
                rows.register()?;
                rows.unlock();
                return Ok(rows);
            }
        }
        Err(Errno::WOULDBLOCK.into())
    }

    fn register(&mut self) -> io::Result<()> {
        let mut table = self.table();
        if self.others_of(&table) == 0 {
            table = Table::default();
        }
        self.slot = table.used;
        table.used += 1;
        if !table.messages.is_empty() {
            // The first of them stands on our row. As after a resize, all are drawn again.
            table.size = None;
        }
        if !sys::hold_byte(self.file.as_fd(), LIVES + i32::from(self.slot))? {
            return Err(Errno::WOULDBLOCK.into());
        }
        self.write(&table)
    }

    /// Gets the file, and says where to draw: after asking the terminal, if that is not known or it has been
    /// resized, and after scrolling, if there is no room. `None` if somebody else has the file.
    ///
    /// `screen` is how large the screen is to be taken for.
    pub fn turn(&mut self, tty: &mut Tty, screen: Size, patience: Duration) -> Option<Turn> {
        if !self.lock(patience) {
            return None;
        }
        let mut table = self.table();
        if !settle(tty, &mut table, screen, patience) {
            self.give_back(tty);
            return None;
        }
        if self.write(&table).is_err() {
            // Without the file nobody knows of anybody.
            table.top = Top::Nowhere;
        }
        Some(match table.top {
            Top::At(top) => Turn::Row {
                ours: u16::try_from(top + i32::from(self.slot)).ok(),
                first: u16::try_from(top).unwrap_or(0),
                lowest: lowest(tty, &table, top, screen),
            },
            Top::Unknown | Top::Nowhere => Turn::Anywhere,
        })
    }

    /// Lets the others have the file again, once all that we have drawn is on the screen: a half of a frame is
    /// followed by its other half.
    pub fn give_back(&mut self, tty: &mut Tty) {
        if tty.flush(Duration::ZERO) {
            self.unlock();
        }
    }

    /// How many others draw on this terminal just now. To be asked in a turn, or they may be leaving.
    #[must_use]
    pub fn others(&self) -> usize {
        self.others_of(&self.table())
    }

    /// Whether another program has turned the terminal's echo off.
    ///
    /// A display turns it off as well while it asks for the position of the cursor, but only while it holds the file.
    pub fn hides_typing(&mut self, tty: &Tty) -> bool {
        if tty.echoes() {
            return false;
        }
        let was_locked = self.is_locked;
        if !self.lock(OTHERS) {
            return true;
        }
        let hides = !tty.echoes();
        if !was_locked {
            self.unlock();
        }
        hides
    }

    /// Has whoever draws next ask where the cursor is: the shell is about to write something.
    pub fn forget(&mut self) {
        if self.lock(OTHERS) {
            let mut table = self.table();
            table.top = Top::Unknown;
            // At worst a display appears where the last one was.
            let _ = self.write(&table);
            self.unlock();
        }
    }

    /// Leaves the screen to the shell before a pause, with the cursor on the lowest row. The messages stay above what
    /// the shell writes.
    pub fn pause(&mut self, tty: &mut Tty, screen: Size, patience: Duration) {
        if self.lock(OTHERS) {
            let mut table = self.table();
            if let Top::At(top) = table.top {
                let mut frame = Vec::new();
                layout::move_to(&mut frame, lowest(tty, &table, top, screen).into());
                let _ = tty.put_while_echoing(&frame, patience);
                table.messages.clear();
            }
            table.top = Top::Unknown;
            let _ = self.write(&table);
            self.give_back(tty);
        }
    }

    /// Writes a message below all rows, in our turn. Returns whether it has.
    pub fn say(&mut self, tty: &mut Tty, screen: Size, message: &str, patience: Duration) -> bool {
        let mut table = self.table();
        let Top::At(top) = table.top else {
            return false;
        };
        let mut frame = Vec::new();
        let screen = on_terminal(tty, screen);
        let top = layout::add_message(&mut frame, &mut table, message, top, screen);
        table.top = Top::At(top);
        if self.write(&table).is_err() {
            return false;
        }
        tty.queue(&frame, patience);
        true
    }

    /// Takes note of the line that stands on our row.
    pub fn has_drawn(&mut self, line: &str) {
        line.clone_into(&mut self.line);
    }

    /// Leaves our line to the others, in our turn: it is drawn again when it has to be.
    pub fn leave_line(&mut self) {
        let mut table = self.table();
        table
            .ended
            .push((self.slot, std::mem::take(&mut self.line)));
        // At worst the line is lost when the terminal is resized.
        let _ = self.write(&table);
    }

    fn others_of(&self, table: &Table) -> usize {
        let lives = |slot: &u16| {
            sys::is_byte_held(self.file.as_fd(), LIVES + i32::from(*slot)).unwrap_or(false)
        };
        (0..table.used).filter(lives).count()
    }

    fn table(&self) -> Table {
        let len = self.file.metadata().map_or(0, |file| file.len());
        let mut bytes = vec![0; len.min(table::LONGEST) as usize];
        let read = self.file.read_exact_at(&mut bytes, 0);
        let table = read.ok().and_then(|()| Table::parsed(&bytes));
        table.unwrap_or_default()
    }

    fn write(&self, table: &Table) -> io::Result<()> {
        let text = table.to_string();
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.set_len(text.len() as u64)
    }

    fn lock(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while !self.is_locked {
            match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => self.is_locked = true,
                Err(Errno::INTR) => {}
                Err(_) if Instant::now() >= deadline => return false,
                Err(_) => thread::sleep(A_LITTLE),
            }
        }
        true
    }

    fn unlock(&mut self) {
        // An unlock that fails leaves what the end of the process takes away.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        self.is_locked = false;
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // Whoever opened it meanwhile notices, and makes another. While somebody else has it, it is in use.
        if self.lock(Duration::ZERO) && self.others() == 0 {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The lowest row of the displays and of the messages below them.
fn lowest(tty: &Tty, table: &Table, top: i32, screen: Size) -> u16 {
    let height = table.height(on_terminal(tty, screen).columns);
    u16::try_from(top + i32::from(height) - 1).unwrap_or(0)
}

/// Makes sure that there is room for all rows, and writes down where the first is. Returns whether the terminal has taken
/// what that needs.
fn settle(tty: &mut Tty, table: &mut Table, screen: Size, patience: Duration) -> bool {
    let size = tty.size();
    let (top, is_resized) = match table.top {
        Top::Unknown => {
            let top = ask(tty, |cursor| {
                // The text in front of the cursor stays: it may be a prompt.
                let begins_row = cursor.column == 1;
                i32::from(cursor.row) - i32::from(begins_row)
            });
            (top, false)
        }
        // The cursor waits on the first row, wherever that is now. Some terminals break lines that are too long for
        // a row, and then as many rows stand below as are needed for them.
        Top::At(_) if table.size != size => {
            let top = ask(tty, |cursor| i32::from(cursor.row) - 1);
            (top, true)
        }
        known => (Some(known), false),
    };
    let Some(top) = top else {
        return false;
    };
    let is_new = top != table.top || is_resized;
    (table.top, table.size) = (top, size);
    let Top::At(top) = top else {
        return true;
    };
    let screen = on_terminal(tty, screen);
    let mut frame = Vec::new();
    if is_resized {
        layout::move_to(&mut frame, top);
        let _ = frame.queue(Clear(ClearType::FromCursorDown));
    }
    let top = if is_new {
        layout::restore(&mut frame, table, top, screen)
    } else {
        let height = table.height(screen.columns);
        layout::make_room(&mut frame, top, height, screen)
    };
    table.top = Top::At(top);
    frame.is_empty() || tty.put_while_echoing(&frame, patience)
}

/// The screen, but as wide as the terminal is.
fn on_terminal(tty: &Tty, screen: Size) -> Size {
    let columns = tty.size().unwrap_or(screen).columns;
    Size { columns, ..screen }
}

/// Where the first row is, as told by where the cursor is, or nowhere if nobody answers. `None` if the terminal does not
/// take the question.
fn ask(tty: &mut Tty, top: impl FnOnce(Position) -> i32) -> Option<Top> {
    match tty.position(ANSWER) {
        Ok(Some(cursor)) => Some(Top::At(top(cursor))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Ok(None) | Err(_) => Some(Top::Nowhere),
    }
}

/// Where pv keeps such files too.
fn directory() -> PathBuf {
    ["TMPDIR", "TMP"]
        .into_iter()
        .filter_map(std::env::var_os)
        .find(|value| !value.is_empty())
        .map_or_else(|| "/tmp".into(), PathBuf::from)
}

/// Opens the file, and refuses what somebody else has put in its place.
fn open(path: &Path, user: u32) -> io::Result<File> {
    // A pipe there would hold us up.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.uid() == user {
        Ok(file)
    } else {
        Err(Errno::PERM.into())
    }
}
