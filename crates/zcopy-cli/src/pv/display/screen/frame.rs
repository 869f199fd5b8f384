//! The bytes that redraw the display's line.

use crossterm::QueueableCommand as _;
use crossterm::cursor::{MoveTo, MoveUp};
use crossterm::terminal::{Clear, ClearType};

use crate::common::terminal::frame::{fresh_line, put, without_cursor};
use crate::pv::display::shared_rows::Slot;

/// The state of the screen before a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    /// Whether the last line may have been broken over several rows.
    pub(super) is_broken: bool,
    /// The terminal's own width.
    pub(super) columns: u16,
    /// Whether there is other output below the last line.
    pub(super) is_written_over: bool,
    /// Whether the cursor may be behind a prompt.
    pub(super) is_behind_prompt: bool,
}

/// Returns the bytes that draw a line in place. They overwrite the old text and erase only the
/// rest, so that nothing flickers. Afterwards the cursor is at the beginning of the line, or of the
/// first row of all displays.
pub(super) fn in_place(line: &str, slot: Slot, before: Before) -> Vec<u8> {
    without_cursor(Vec::new(), |frame| match slot {
        Slot::Anywhere => {
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
        Slot::Row { ours, first, .. } => {
            if let Some(ours) = ours {
                let _ = frame.queue(MoveTo(0, ours));
                put(frame, line, before.columns);
            }
            let _ = frame.queue(MoveTo(0, first));
        }
    })
}

/// Returns the bytes that draw a line on a terminal that another program writes to as well. The
/// line ends with a newline, so that nothing overwrites it. It replaces the one before only if
/// there is no output below that.
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
