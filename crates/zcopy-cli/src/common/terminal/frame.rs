//! The bytes that draw lines on a terminal over earlier ones.

use crossterm::QueueableCommand as _;
use crossterm::cursor::{Hide, Show};
use crossterm::terminal::{Clear, ClearType};

use crate::common::terminal::ansi::width;
use crate::common::terminal::sgr;

/// The number of bytes that the kernel passes to a terminal at a time (`iterate_tty_write`).
const MAX_CHUNK: usize = 2048;

/// Hides the cursor while `draw` draws, so that it does not flicker. The same write shows it again,
/// so that a process that is killed between two frames leaves it visible.
///
/// `draw` must write no line feeds or tabs: the kernel writes the text between these at once
/// (`process_output_block`), so that ^S stops the terminal before or after it. If the whole frame
/// is too long for this, the cursor stays visible.
pub(crate) fn without_cursor(mut frame: Vec<u8>, draw: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut drawn = Vec::with_capacity(256);
    draw(&mut drawn);
    // Writing to a vector never fails, here and below.
    let (mut hide, mut show) = (Vec::new(), Vec::new());
    let _ = hide.queue(Hide);
    let _ = show.queue(Show);
    if frame.len() + hide.len() + drawn.len() + show.len() > MAX_CHUNK {
        frame.append(&mut drawn);
    } else {
        for mut part in [hide, drawn, show] {
            frame.append(&mut part);
        }
    }
    frame
}

/// Returns a line for a terminal that interprets only text and carriage returns. It overwrites a
/// line of `shown` columns.
pub(crate) fn plain(line: &str, shown: usize) -> Vec<u8> {
    let rest = shown.saturating_sub(width(line));
    let mut frame = line.as_bytes().to_vec();
    frame.extend(std::iter::repeat_n(b' ', rest));
    frame.push(b'\r');
    frame
}

/// Returns lines that stay below the present text of a terminal with this many columns.
pub(crate) fn below(lines: &[String], columns: u16) -> Vec<u8> {
    let mut frame = fresh_line(columns);
    for line in lines {
        put(&mut frame, line, columns);
        // A full-screen program may have turned off the conversion of `\n`.
        frame.extend_from_slice(b"\r\n");
    }
    frame
}

/// Moves the cursor to the beginning of an empty row: the present one if it is empty, otherwise the
/// next. Writes as many blanks as there are columns; the cursor stays on its row only if it was at
/// the beginning, because terminals go to the next row with the character after the last column.
pub(crate) fn fresh_line(columns: u16) -> Vec<u8> {
    let mut blanks = vec![b' '; usize::from(columns)];
    blanks.push(b'\r');
    blanks
}

/// Appends the line and the sequence that erases the rest of its row, on a terminal with this many
/// columns.
pub(crate) fn put(frame: &mut Vec<u8>, line: &str, terminal: u16) {
    frame.extend_from_slice(line.as_bytes());
    if line.contains("\x1b[") {
        // The colours must not fill the rest of the row.
        frame.extend_from_slice(sgr::RESET.as_bytes());
    }
    // After the last column the cursor still stands on it, and would erase it.
    if width(line) < usize::from(terminal) {
        let _ = frame.queue(Clear(ClearType::UntilNewLine));
    }
}
