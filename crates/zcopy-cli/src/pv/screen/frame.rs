//! The bytes that draw a line over the one before.

use crossterm::QueueableCommand as _;
use crossterm::cursor::{Hide, MoveTo, MoveUp, Show};
use crossterm::terminal::{Clear, ClearType};

use super::super::rows::Turn;
use super::super::text::width;

/// The screen before a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    /// Whether the last line may have been broken over several rows.
    pub(super) is_broken: bool,
    /// The terminal's own width.
    pub(super) columns: u16,
    /// Whether something else stands below the last line.
    pub(super) is_written_over: bool,
    /// Whether the cursor may stand behind a prompt.
    pub(super) is_behind_prompt: bool,
}

/// How many bytes of a write the kernel gives to a terminal at a time (`iterate_tty_write`).
const LONGEST_CHUNK: usize = 2048;

/// Hides the cursor while something is drawn, so that it does not flicker. It is shown again by the same write, so that
/// a process that is killed between two frames leaves it visible.
///
/// The drawing is to have no line feeds or tabs: the kernel writes the text between these at once
/// (`process_output_block`), so that ^S stops the terminal before it or after it. If the frame, with the bytes that it
/// begins with, is too long for this, the cursor stays visible.
pub(super) fn without_cursor(mut frame: Vec<u8>, draw: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut drawn = Vec::with_capacity(256);
    draw(&mut drawn);
    // To write to a vector never fails, here and below.
    let (mut hide, mut show) = (Vec::new(), Vec::new());
    let _ = hide.queue(Hide);
    let _ = show.queue(Show);
    if frame.len() + hide.len() + drawn.len() + show.len() > LONGEST_CHUNK {
        frame.append(&mut drawn);
    } else {
        for mut part in [hide, drawn, show] {
            frame.append(&mut part);
        }
    }
    frame
}

/// A line for what understands nothing but text and carriage returns, over one of so many columns.
pub(super) fn plain(line: &str, shown: usize) -> Vec<u8> {
    let rest = shown.saturating_sub(width(line));
    let mut frame = line.as_bytes().to_vec();
    frame.extend(std::iter::repeat_n(b' ', rest));
    frame.push(b'\r');
    frame
}

/// A line for a terminal. What stands there is overwritten, and only the rest of it erased, so that nothing
/// flickers. Afterwards the cursor is at the beginning of the line, or of the first row of all displays.
pub(super) fn in_place(line: &str, turn: Turn, before: Before) -> Vec<u8> {
    without_cursor(Vec::new(), |frame| match turn {
        Turn::Anywhere => {
            if before.is_behind_prompt {
                frame.extend_from_slice(&fresh_line(before.columns));
            } else {
                frame.push(b'\r');
            }
            if before.is_broken {
                let _ = frame.queue(Clear(ClearType::FromCursorDown));
            }
            put(frame, line, before.columns);
            frame.push(b'\r');
        }
        Turn::Row { ours, first, .. } => {
            if let Some(ours) = ours {
                let _ = frame.queue(MoveTo(0, ours));
                put(frame, line, before.columns);
            }
            let _ = frame.queue(MoveTo(0, first));
        }
    })
}

/// A line for a terminal that somebody else writes to as well: it ends, so that nothing is written over it, and is
/// drawn over the one before only if nothing has come after that.
pub(super) fn between(line: &str, before: Before) -> Vec<u8> {
    let mut frame = without_cursor(Vec::new(), |frame| {
        if before.is_written_over {
            frame.extend_from_slice(&fresh_line(before.columns));
        } else {
            let _ = frame.queue(MoveUp(1));
            frame.push(b'\r');
        }
        put(frame, line, before.columns);
    });
    frame.push(b'\n');
    frame
}

/// Lines that stay below whatever stands on a terminal of so many columns.
pub(super) fn below(lines: &[String], columns: u16) -> Vec<u8> {
    let mut frame = fresh_line(columns);
    for line in lines {
        put(&mut frame, line, columns);
        // A program that draws the whole screen may have turned off what makes this of `\n`.
        frame.extend_from_slice(b"\r\n");
    }
    frame
}

/// Has the cursor stand at the beginning of an empty row: where it is, if that is one, or else on the next. As many
/// blanks as there are columns leave it on its row only if it stood at the beginning: terminals go on to the next row
/// with the character after the last column.
pub(super) fn fresh_line(columns: u16) -> Vec<u8> {
    let mut blanks = vec![b' '; usize::from(columns)];
    blanks.push(b'\r');
    blanks
}

/// Appends the line and what erases the rest of its row, on a terminal of so many columns.
pub(super) fn put(frame: &mut Vec<u8>, line: &str, terminal: u16) {
    frame.extend_from_slice(line.as_bytes());
    if line.contains("\x1b[") {
        // The colours of one line are not to fill the rest of the row.
        frame.extend_from_slice(b"\x1b[m");
    }
    // After its last column a terminal still stands on that, and would erase it.
    if width(line) < usize::from(terminal) {
        let _ = frame.queue(Clear(ClearType::UntilNewLine));
    }
}
