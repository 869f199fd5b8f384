//! The table that the processes on a terminal share.

use std::fmt;

use crate::common::terminal::ansi::width;
use crate::common::terminal::tty::Size;

/// The longest table as text.
pub(super) const MAX_LEN: u64 = 1 << 18;

/// The position and number of the rows, and the text that no process draws any more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Table {
    pub(super) top: Origin,
    /// The number of reserved rows, including those of displays that have ended.
    pub(super) used: u16,
    /// The size of the terminal at the last check.
    pub(super) size: Option<Size>,
    /// The last lines of displays that have ended, by their slots.
    pub(super) ended: Vec<(u16, String)>,
    /// The messages below the rows.
    pub(super) messages: Vec<String>,
}

/// The position of the first row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Origin {
    /// The terminal has not been queried.
    #[default]
    Unknown,
    /// The row, counted from 0. A negative row has been scrolled off the screen.
    At(i32),
    /// The terminal was queried, and did not answer.
    Nowhere,
}

impl Table {
    /// Parses a table. Returns `None` if the bytes are not one.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.split_terminator('\n');
        let mut words = lines.next()?.split_ascii_whitespace();
        let top = match words.next()? {
            "unknown" => Origin::Unknown,
            "nowhere" => Origin::Nowhere,
            row => Origin::At(row.parse().ok()?),
        };
        let mut number = || words.next()?.parse::<u16>().ok();
        let (used, columns, rows) = (number()?, number()?, number()?);
        let (mut ended, mut messages) = (Vec::new(), Vec::new());
        for line in lines {
            match line.split_once(' ')? {
                ("message", text) => messages.push(text.to_owned()),
                (slot, text) => ended.push((slot.parse().ok()?, text.to_owned())),
            }
        }
        Some(Self {
            top,
            used,
            size: (columns > 0).then_some(Size { columns, rows }),
            ended,
            messages,
        })
    }

    /// Returns the number of rows of the displays and messages on a terminal with this many
    /// columns.
    pub(super) fn height(&self, columns: u16) -> u16 {
        let messages = self.messages.iter().map(|message| height(message, columns));
        messages.fold(self.used, u16::saturating_add)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.top {
            Origin::Unknown => f.write_str("unknown")?,
            Origin::Nowhere => f.write_str("nowhere")?,
            Origin::At(row) => write!(f, "{row}")?,
        }
        let (columns, rows) = self.size.map_or((0, 0), |size| (size.columns, size.rows));
        writeln!(f, " {} {columns} {rows}", self.used)?;
        for (slot, line) in &self.ended {
            writeln!(f, "{slot} {}", line.replace('\n', " "))?;
        }
        for message in &self.messages {
            writeln!(f, "message {}", message.replace('\n', " "))?;
        }
        Ok(())
    }
}

/// Returns the number of rows of a message on a terminal with this many columns.
pub(super) fn height(message: &str, columns: u16) -> u16 {
    let rows = width(message).div_ceil(usize::from(columns.max(1)));
    u16::try_from(rows.max(1)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Origin, Size, Table};

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let size = Size {
            columns: 80,
            rows: 24,
        };
        let ended = vec![(2, "\x1b[31m 5 B\x1b[m".to_owned()), (0, String::new())];
        let messages = vec!["pv: nope: No such file".to_owned(), " ".to_owned()];
        for top in [
            Origin::Unknown,
            Origin::Nowhere,
            Origin::At(0),
            Origin::At(-3),
        ] {
            for size in [None, Some(size)] {
                for (ended, messages) in [
                    (vec![], vec![]),
                    (ended.clone(), vec![]),
                    (ended.clone(), messages.clone()),
                ] {
                    let table = Table {
                        top,
                        used: 7,
                        size,
                        ended,
                        messages,
                    };
                    assert_eq!(Table::parse(table.to_string().as_bytes()), Some(table));
                }
            }
        }
    }

    #[test]
    fn what_is_no_table_is_none() {
        for bytes in [
            &b""[..],
            b"\xff",
            b"12",
            b"a 1 80 24",
            b"3 -1 80 24",
            b"3 1 80 24\nx y",
        ] {
            assert_eq!(Table::parse(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_message_takes_as_many_rows_as_the_terminal_breaks_it_into() {
        let table = Table {
            used: 2,
            messages: vec!["0123456789".into(), String::new(), "01234567890".into()],
            ..Table::default()
        };
        assert_eq!(table.height(10), 6);
        assert_eq!(table.height(11), 5);
    }
}
