//! Several displays on one terminal, with a row for each.
//!
//! The processes of a pipeline share a file that is named after the terminal, and know of each
//! other only by it. It holds the row of the first display. Each process locks a byte of it until
//! it ends, so that a killed process leaves nothing behind. A process that draws, queries the
//! terminal or scrolls locks the whole file.

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

use crate::common::sys;
use crate::common::terminal::tty::{CursorPosition, Size, Tty};
use table::{Origin, Table};

mod layout;
mod table;

/// The longest time that a terminal takes to tell the position of its cursor, over any network.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest wait for the lock: another process may be waiting for the terminal's answer.
const LOCK_TIMEOUT: Duration = Duration::from_millis(1500);

/// The longest wait for the lock while the process is about to stop. A display that stops at the same
/// time at ^Z unlocks the file first.
const STOPPING_LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// The pause before another attempt to lock the file.
const RETRY_DELAY: Duration = Duration::from_millis(2);

/// The number of attempts to open the file, which its last user may remove meanwhile.
const MAX_ATTEMPTS: usize = 16;

/// The offset of the bytes that processes lock while they run. The file holds no data there.
const FIRST_LOCK_BYTE: i32 = 1 << 20;

/// A row that belongs to this process.
#[derive(Debug)]
pub struct Rows {
    file: File,
    path: PathBuf,
    /// The number of displays that registered earlier. Their rows are above.
    slot: u16,
    /// Whether this process has locked the file.
    is_locked: bool,
    /// The last line that this process has drawn.
    line: String,
}

/// The place to draw at while the file is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// On a row of this process, counted from 0 at the top as crossterm does.
    Row {
        /// The row of this process. `None` if it has left the screen.
        ours: Option<u16>,
        /// The highest row on the screen. The cursor stays there: after a resize its position tells
        /// where all rows are.
        first: u16,
        /// The lowest row of all displays, and of the messages below them.
        lowest: u16,
    },
    /// At the cursor, because the terminal does not tell its position.
    Anywhere,
}

impl Rows {
    /// Reserves the next row of this terminal.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be used, or if another process holds the lock for too
    /// long.
    pub fn join(tty: &Tty) -> io::Result<Self> {
        Self::join_in(&directory(), tty)
    }

    /// Does the same with the file in a given directory.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Rows::join`].
    pub fn join_in(directory: &Path, tty: &Tty) -> io::Result<Self> {
        let terminal = rustix::fs::fstat(tty)?;
        let user = rustix::process::geteuid().as_raw();
        // A terminal in another container may have the same number.
        let name = format!("zc-pv-{user}-{:x}-{:x}", terminal.st_dev, terminal.st_rdev);
        let path = directory.join(name);
        for _ in 0..MAX_ATTEMPTS {
            let mut rows = Self {
                file: open(&path, user)?,
                path: path.clone(),
                slot: 0,
                is_locked: false,
                line: String::new(),
            };
            // A shorter wait would cost a process its row for good.
            if !rows.lock_within(LOCK_TIMEOUT, || false) {
                return Err(Errno::WOULDBLOCK.into());
            }
            // The last user may have removed the file between the two calls.
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
            // The first message is on the new row. All are redrawn as after a resize.
            table.size = None;
        }
        if !sys::lock_byte(self.file.as_fd(), FIRST_LOCK_BYTE + i32::from(self.slot))? {
            return Err(Errno::WOULDBLOCK.into());
        }
        self.write(&table)
    }

    /// Locks the file, and returns the place to draw at. Queries the terminal if the place is
    /// unknown or the terminal has been resized, and scrolls if there is no room. Returns `None` if
    /// another process holds the lock.
    ///
    /// `screen` is the size of the screen.
    pub fn acquire(&mut self, tty: &mut Tty, screen: Size, timeout: Duration) -> Option<Slot> {
        if !self.lock(timeout) {
            return None;
        }
        let mut table = self.table();
        if !place_rows(tty, &mut table, screen, timeout) {
            self.release(tty);
            return None;
        }
        if self.write(&table).is_err() {
            // Without the file, the displays do not know of each other.
            table.top = Origin::Nowhere;
        }
        Some(match table.top {
            Origin::At(top) => Slot::Row {
                ours: u16::try_from(top + i32::from(self.slot)).ok(),
                first: u16::try_from(top).unwrap_or(0),
                lowest: lowest(tty, &table, top, screen),
            },
            Origin::Unknown | Origin::Nowhere => Slot::Anywhere,
        })
    }

    /// Unlocks the file, unless a part of a frame is still pending: its rest has to follow it.
    pub fn release(&mut self, tty: &mut Tty) {
        if tty.flush(Duration::ZERO) {
            self.unlock();
        }
    }

    /// Returns the number of other displays on this terminal. The file must be locked, because
    /// others may be about to leave.
    #[must_use]
    pub fn others(&self) -> usize {
        self.others_of(&self.table())
    }

    /// Returns whether another program has turned off the echo of the terminal.
    ///
    /// A display turns it off, too, while it queries the position of the cursor, but only while it
    /// holds the lock.
    pub fn hides_typing(&mut self, tty: &Tty) -> bool {
        if tty.echoes() {
            return false;
        }
        let was_locked = self.is_locked;
        if !self.lock(LOCK_TIMEOUT) {
            return true;
        }
        let hides = !tty.echoes();
        if !was_locked {
            self.unlock();
        }
        hides
    }

    /// Makes the next display that draws query the position of the cursor, because the shell is
    /// about to write.
    pub fn forget(&mut self) {
        if self.lock(LOCK_TIMEOUT) {
            let mut table = self.table();
            table.top = Origin::Unknown;
            // If this fails, a display may appear at an old place.
            let _ = self.write(&table);
            self.unlock();
        }
    }

    /// Leaves the screen to the shell before a pause, with the cursor on the lowest row. The
    /// messages stay above the output of the shell.
    pub fn pause(&mut self, tty: &mut Tty, screen: Size, timeout: Duration) {
        if self.lock(LOCK_TIMEOUT) {
            let mut table = self.table();
            if let Origin::At(top) = table.top {
                // The shell may have taken the terminal during the wait for the lock.
                if tty.is_foreground() {
                    let mut frame = Vec::new();
                    layout::move_to(&mut frame, lowest(tty, &table, top, screen).into());
                    let _ = tty.put_while_echoing(&frame, timeout);
                }
                table.messages.clear();
            }
            table.top = Origin::Unknown;
            let _ = self.write(&table);
            self.release(tty);
        }
    }

    /// Writes a message below all rows, while the file is locked. Returns whether it has been
    /// written.
    pub fn write_message(
        &mut self,
        tty: &mut Tty,
        screen: Size,
        message: &str,
        timeout: Duration,
    ) -> bool {
        let mut table = self.table();
        let Origin::At(top) = table.top else {
            return false;
        };
        let mut frame = Vec::new();
        let screen = on_terminal(tty, screen);
        let top = layout::add_message(&mut frame, &mut table, message, top, screen);
        table.top = Origin::At(top);
        if self.write(&table).is_err() {
            return false;
        }
        tty.queue(&frame, timeout);
        true
    }

    /// Stores the line on the row of this process.
    pub fn set_line(&mut self, line: &str) {
        line.clone_into(&mut self.line);
    }

    /// Stores the line of this process in the file, while that is locked, so that other displays
    /// can redraw it.
    pub fn leave_line(&mut self) {
        let mut table = self.table();
        table
            .ended
            .push((self.slot, std::mem::take(&mut self.line)));
        // If this fails, the line is lost when the terminal is resized.
        let _ = self.write(&table);
    }

    fn others_of(&self, table: &Table) -> usize {
        let lives = |slot: &u16| {
            sys::is_byte_locked(self.file.as_fd(), FIRST_LOCK_BYTE + i32::from(*slot))
                .unwrap_or(false)
        };
        (0..table.used).filter(lives).count()
    }

    fn table(&self) -> Table {
        let len = self.file.metadata().map_or(0, |file| file.len());
        let mut bytes = vec![0; len.min(table::MAX_LEN) as usize];
        let read = self.file.read_exact_at(&mut bytes, 0);
        let table = read.ok().and_then(|()| Table::parse(&bytes));
        table.unwrap_or_default()
    }

    fn write(&self, table: &Table) -> io::Result<()> {
        let text = table.to_string();
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.set_len(text.len() as u64)
    }

    /// Locks the file. Returns whether it could do so in time, or soon enough for a process that is
    /// about to stop.
    fn lock(&mut self, timeout: Duration) -> bool {
        self.lock_within(timeout, || sys::is_pending(libc::SIGTSTP))
    }

    /// Locks the file, for which it waits less long once the process is in a hurry.
    fn lock_within(&mut self, timeout: Duration, is_in_hurry: impl Fn() -> bool) -> bool {
        let mut deadline = Instant::now() + timeout;
        let mut is_shortened = false;
        while !self.is_locked {
            match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => self.is_locked = true,
                Err(Errno::INTR) => {}
                Err(_) if Instant::now() >= deadline => return false,
                Err(_) => {
                    if !is_shortened && is_in_hurry() {
                        is_shortened = true;
                        deadline = deadline.min(Instant::now() + STOPPING_LOCK_TIMEOUT);
                    }
                    thread::sleep(RETRY_DELAY);
                }
            }
        }
        true
    }

    fn unlock(&mut self) {
        // If this fails, the end of the process removes the lock.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        self.is_locked = false;
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // A process that has just opened the file notices the removal, and creates another one.
        if self.lock(Duration::ZERO) && self.others() == 0 {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Returns the lowest row of the displays and of the messages below them.
fn lowest(tty: &Tty, table: &Table, top: i32, screen: Size) -> u16 {
    let height = table.height(on_terminal(tty, screen).columns);
    u16::try_from(top + i32::from(height) - 1).unwrap_or(0)
}

/// Makes room for all rows, and stores the position of the first. Returns whether the terminal has
/// accepted what is written for this.
fn place_rows(tty: &mut Tty, table: &mut Table, screen: Size, timeout: Duration) -> bool {
    let size = tty.size();
    let (top, is_resized) = match table.top {
        Origin::Unknown => {
            let top = query_origin(tty, |cursor| {
                // The text before the cursor stays. It may be a prompt.
                let begins_row = cursor.column == 1;
                i32::from(cursor.row) - i32::from(begins_row)
            });
            (top, false)
        }
        // The cursor is on the first row, wherever that is now. Some terminals break lines that are
        // too long, and rows then need more than one.
        Origin::At(_) if table.size != size => {
            let top = query_origin(tty, |cursor| i32::from(cursor.row) - 1);
            (top, true)
        }
        known => (Some(known), false),
    };
    let Some(top) = top else {
        return false;
    };
    let is_new = top != table.top || is_resized;
    (table.top, table.size) = (top, size);
    let Origin::At(top) = top else {
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
    table.top = Origin::At(top);
    frame.is_empty() || tty.put_while_echoing(&frame, timeout)
}

/// Returns the size of the screen, with the width of the terminal.
fn on_terminal(tty: &Tty, screen: Size) -> Size {
    let columns = tty.size().unwrap_or(screen).columns;
    Size { columns, ..screen }
}

/// Returns the first row, computed from the position of the cursor, or `Nowhere` if the terminal
/// does not answer. Returns `None` if the terminal does not accept the query.
fn query_origin(tty: &mut Tty, top: impl FnOnce(CursorPosition) -> i32) -> Option<Origin> {
    match tty.position(ANSWER_TIMEOUT) {
        Ok(Some(cursor)) => Some(Origin::At(top(cursor))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Ok(None) | Err(_) => Some(Origin::Nowhere),
    }
}

/// Returns the directory of the file, the same in which pv has its own.
fn directory() -> PathBuf {
    ["TMPDIR", "TMP"]
        .into_iter()
        .filter_map(std::env::var_os)
        .find(|value| !value.is_empty())
        .map_or_else(|| "/tmp".into(), PathBuf::from)
}

/// Opens the file. Refuses a file of another user, and what is not a regular file.
fn open(path: &Path, user: u32) -> io::Result<File> {
    // Without O_NONBLOCK, opening a FIFO could block.
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
