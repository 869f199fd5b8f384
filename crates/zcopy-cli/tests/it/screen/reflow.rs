//! Resizes that break lines anew, as VTE, kitty and tmux do. `vt100` cuts lines, as xterm does.

use std::num::NonZeroU16;

use super::Beside;

/// Gives the screen another size. The cursor stays on its character.
pub(super) fn reflow(parser: &mut vt100::Parser<Beside>, rows: u16, columns: u16) {
    let screen = parser.screen();
    let (_, old_columns) = screen.size();
    let old_columns = usize::from(old_columns.get());
    let (cursor_row, cursor_column) = screen.cursor_position();
    let mut lines = Vec::<String>::new();
    // The line that the cursor is on, and the character.
    let mut cursor = (0, 0);
    let mut is_continued = false;
    for (row, text) in (0..).zip(screen.rows(0, screen.size().1.get())) {
        let is_wrapped = screen.row_wrapped(row);
        if !is_continued {
            lines.push(String::new());
        }
        let line = lines.last_mut().unwrap();
        let begin = line.chars().count();
        line.push_str(text.trim_end());
        if is_wrapped {
            // The blanks at the end of a row that goes on are part of the line.
            let n_blanks = (begin + old_columns).saturating_sub(line.chars().count());
            line.extend(std::iter::repeat_n(' ', n_blanks));
        }
        if row == cursor_row {
            cursor = (lines.len() - 1, begin + usize::from(cursor_column));
        }
        is_continued = is_wrapped;
    }
    while lines.len() > cursor.0 + 1 && lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    let width = usize::from(columns);
    let n_rows = |line: &String| line.chars().count().div_ceil(width).max(1);
    let scrolled = lines
        .iter()
        .map(n_rows)
        .sum::<usize>()
        .saturating_sub(rows.into());
    let above = lines[..cursor.0].iter().map(n_rows).sum::<usize>();
    let row = (above + cursor.1 / width).saturating_sub(scrolled);
    let callbacks = std::mem::take(parser.callbacks_mut());
    let [rows, columns] = [rows, columns].map(|n| NonZeroU16::new(n).unwrap());
    *parser = vt100::Parser::new_with_callbacks(rows, columns, 0, callbacks);
    parser.process(lines.join("\r\n").as_bytes());
    parser.process(format!("\x1b[{};{}H", row + 1, cursor.1 % width + 1).as_bytes());
}
