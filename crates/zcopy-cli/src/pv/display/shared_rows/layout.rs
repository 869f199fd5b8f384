//! The bytes that make room for all rows, and redraw text that no process draws any more.

use crossterm::QueueableCommand as _;
use crossterm::cursor::MoveTo;
use crossterm::terminal::{Clear, ClearType};

use super::table::{Table, height};
use crate::common::terminal::ansi::{cut, width};
use crate::common::terminal::sgr;
use crate::common::terminal::tty::Size;

/// Scrolls until `n_rows` rows fit on the screen. Returns the new first row.
pub(super) fn make_room(frame: &mut Vec<u8>, top: i32, n_rows: u16, screen: Size) -> i32 {
    let lowest = top + i32::from(n_rows);
    let excess = u16::try_from(lowest - i32::from(screen.rows)).unwrap_or(0);
    if excess > 0 {
        move_to(frame, i32::from(screen.rows) - 1);
        frame.extend(std::iter::repeat_n(b'\n', excess.into()));
    }
    top - i32::from(excess)
}

/// Draws the last lines of displays that have ended, and the messages below all rows. Returns the
/// new first row.
///
/// If the messages do not fit below the rows, they are drawn above, and removed from the table.
pub(super) fn restore(frame: &mut Vec<u8>, table: &mut Table, top: i32, screen: Size) -> i32 {
    let mut top = top;
    if table.height(screen.columns) > screen.rows {
        for message in std::mem::take(&mut table.messages) {
            top = draw_message(frame, &message, top, screen);
        }
    }
    top = make_room(frame, top, table.height(screen.columns), screen);
    draw_ended(frame, table, top, screen);
    let mut row = top + i32::from(table.used);
    for message in &table.messages {
        row = draw_message(frame, message, row, screen);
    }
    move_to(frame, top);
    top
}

/// Adds a message below all others. Returns the new first row.
///
/// If there is no room, the rows start again below the message.
pub(super) fn add_message(
    frame: &mut Vec<u8>,
    table: &mut Table,
    message: &str,
    top: i32,
    screen: Size,
) -> i32 {
    let below = top + i32::from(table.height(screen.columns));
    table.messages.push(message.to_owned());
    let n_rows = table.height(screen.columns);
    if n_rows <= screen.rows {
        let scrolled = make_room(frame, top, n_rows, screen);
        draw_message(frame, message, below + scrolled - top, screen);
        move_to(frame, scrolled);
        return scrolled;
    }
    table.messages.clear();
    let top = draw_message(frame, message, below, screen);
    let top = make_room(frame, top, table.used, screen);
    draw_ended(frame, table, top, screen);
    move_to(frame, top);
    top
}

fn draw_ended(frame: &mut Vec<u8>, table: &Table, top: i32, screen: Size) {
    for (slot, line) in &table.ended {
        let row = top + i32::from(*slot);
        if row >= 0 {
            move_to(frame, row);
            draw(frame, &cut(line, screen.columns.into()), screen);
        }
    }
}

/// Draws a message, after scrolling if its rows are below the screen. Returns the row below it.
fn draw_message(frame: &mut Vec<u8>, message: &str, row: i32, screen: Size) -> i32 {
    let n_rows = height(message, screen.columns);
    let row = make_room(frame, row, n_rows, screen);
    move_to(frame, row);
    draw(frame, message, screen);
    row + i32::from(n_rows)
}

fn draw(frame: &mut Vec<u8>, line: &str, screen: Size) {
    frame.extend_from_slice(line.as_bytes());
    if line.contains("\x1b[") {
        frame.extend_from_slice(sgr::RESET.as_bytes());
    }
    // After the last column the cursor still stands on it, and would erase it.
    if width(line) == 0 || !width(line).is_multiple_of(screen.columns.into()) {
        // Writing to a vector never fails, here and below.
        let _ = frame.queue(Clear(ClearType::UntilNewLine));
    }
}

/// Moves the cursor to the beginning of a row, or of the highest row if that one is above the
/// screen.
pub(super) fn move_to(frame: &mut Vec<u8>, row: i32) {
    let _ = frame.queue(MoveTo(0, u16::try_from(row).unwrap_or(0)));
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::{Size, Table, add_message, make_room, restore};

    const SCREEN: Size = Size {
        columns: 10,
        rows: 4,
    };

    /// The rows of a screen of four after a frame over `lines`.
    fn drawn(lines: &str, frame: &[u8]) -> Vec<String> {
        let [rows, columns] = [SCREEN.rows, SCREEN.columns].map(|n| NonZeroU16::new(n).unwrap());
        let mut terminal = vt100::Parser::new(rows, columns, 0);
        terminal.process(lines.as_bytes());
        terminal.process(frame);
        let rows = terminal.screen().rows(0, SCREEN.columns);
        rows.map(|row| row.trim_end().to_owned()).collect()
    }

    #[test]
    fn the_screen_scrolls_by_the_rows_that_do_not_fit() {
        for (top, n_rows, then) in [(0, 4, 0), (3, 1, 3), (3, 3, 1), (2, 5, -1)] {
            let mut frame = Vec::new();
            assert_eq!(make_room(&mut frame, top, n_rows, SCREEN), then);
            let n_feeds = String::from_utf8(frame).unwrap().matches('\n').count();
            assert_eq!(i32::try_from(n_feeds).unwrap(), top - then);
        }
    }

    #[test]
    fn messages_stand_below_the_rows_until_there_is_no_room() {
        let mut table = Table {
            used: 1,
            ended: vec![(0, "one".into())],
            ..Table::default()
        };
        let mut frame = Vec::new();
        let top = add_message(&mut frame, &mut table, "a", 2, SCREEN);
        let top = add_message(&mut frame, &mut table, "b", top, SCREEN);
        assert_eq!(top, 1);
        assert_eq!(drawn("\r\n$\r\none", &frame), ["$", "one", "a", "b"]);
        let top = add_message(&mut frame, &mut table, "0123456789", top, SCREEN);
        assert_eq!(top, 0);
        assert_eq!(
            drawn("\r\n$\r\none", &frame),
            ["one", "a", "b", "0123456789"]
        );
        let top = add_message(&mut frame, &mut table, "d", top, SCREEN);
        assert_eq!((top, &table.messages[..]), (3, &[][..]));
        assert_eq!(
            drawn("\r\n$\r\none", &frame),
            ["b", "0123456789", "d", "one"]
        );
    }

    #[test]
    fn lines_that_nobody_draws_again_are_restored_as_wide_as_the_screen() {
        let mut table = Table {
            used: 2,
            ended: vec![(1, "0123456789012".into())],
            messages: vec!["01234567890".into()],
            ..Table::default()
        };
        let mut frame = Vec::new();
        assert_eq!(restore(&mut frame, &mut table, 1, SCREEN), 0);
        assert_eq!(drawn("$", &frame), ["", "0123456789", "0123456789", "0"]);
        table.messages.push("more".into());
        let mut frame = Vec::new();
        assert_eq!(restore(&mut frame, &mut table, 1, SCREEN), 2);
        assert_eq!(drawn("$", &frame), ["0", "more", "", "0123456789"]);
        assert!(table.messages.is_empty());
    }
}
