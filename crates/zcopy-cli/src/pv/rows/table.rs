//! What the processes on one terminal tell each other.

use std::fmt;

use crate::tty::Size;

/// How long a table may be as text.
pub(super) const LONGEST: usize = 64;

/// Where all rows are, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Table {
    pub(super) top: Top,
    /// How many rows are taken, also by those who have left since.
    pub(super) used: u16,
    /// How large the terminal was when somebody last looked.
    pub(super) size: Option<Size>,
}

/// The row of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Top {
    /// The terminal is yet to be asked.
    #[default]
    Unknown,
    /// Counted from 0. Less than that has been scrolled away.
    At(i32),
    /// The terminal was asked, and did not answer.
    Nowhere,
}

impl Table {
    /// The table, if these bytes are one.
    pub(super) fn parsed(bytes: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(bytes).ok()?.split_ascii_whitespace();
        let top = match words.next()? {
            "unknown" => Top::Unknown,
            "nowhere" => Top::Nowhere,
            row => Top::At(row.parse().ok()?),
        };
        let mut number = || words.next()?.parse::<u16>().ok();
        let (used, columns, rows) = (number()?, number()?, number()?);
        Some(Self {
            top,
            used,
            size: (columns > 0).then_some(Size { columns, rows }),
        })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.top {
            Top::Unknown => f.write_str("unknown")?,
            Top::Nowhere => f.write_str("nowhere")?,
            Top::At(row) => write!(f, "{row}")?,
        }
        let (columns, rows) = self.size.map_or((0, 0), |size| (size.columns, size.rows));
        writeln!(f, " {} {columns} {rows}", self.used)
    }
}

#[cfg(test)]
mod tests {
    use super::{Size, Table, Top};

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let size = Size {
            columns: 80,
            rows: 24,
        };
        for top in [Top::Unknown, Top::Nowhere, Top::At(0), Top::At(-3)] {
            for size in [None, Some(size)] {
                let table = Table { top, used: 7, size };
                assert_eq!(Table::parsed(table.to_string().as_bytes()), Some(table));
            }
        }
    }

    #[test]
    fn what_is_no_table_is_none() {
        for bytes in [&b""[..], b"\xff", b"12", b"a 1 80 24", b"3 -1 80 24"] {
            assert_eq!(Table::parsed(bytes), None, "{bytes:?}");
        }
    }
}
