//! How bytes are shown that cannot be seen.

use super::Look;

/// The most bytes that one is shown as: `M-^X`.
pub(super) const LONGEST_TEXT: usize = 4;

/// How a byte is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    /// The text, and after it bytes that mean nothing.
    pub(super) text: [u8; LONGEST_TEXT],
    /// The length of the text.
    pub(super) len: u32,
}

/// How each byte is shown.
pub(super) type Table = [Shown; 256];

/// How each byte is shown by itself, if carriage returns before newlines are seen to.
#[inline]
pub(super) fn table(look: Look) -> &'static Table {
    static TABLES: [[Table; 2]; 2] = [
        [table_of(false, false), table_of(false, true)],
        [table_of(true, false), table_of(true, true)],
    ];
    &TABLES[usize::from(look.show_nonprinting)][usize::from(look.show_tabs)]
}

/// How a byte is shown that does not print, or is a tab.
#[inline]
pub(super) fn visible(byte: u8) -> Shown {
    static ALL: Table = table_of(true, true);
    ALL[usize::from(byte)]
}

const fn table_of(nonprinting: bool, tabs: bool) -> Table {
    let mut table = [Shown::as_itself(0); 256];
    let mut byte = 0;
    while byte < 256 {
        let is_shown = match byte as u8 {
            b'\n' => false,
            b'\t' => tabs,
            _ => nonprinting,
        };
        table[byte] = if is_shown {
            Shown::visibly(byte as u8)
        } else {
            Shown::as_itself(byte as u8)
        };
        byte += 1;
    }
    table
}

impl Shown {
    const fn as_itself(byte: u8) -> Self {
        Self {
            text: [byte, 0, 0, 0],
            len: 1,
        }
    }

    const fn visibly(byte: u8) -> Self {
        match byte {
            0..32 | 127 => Self {
                // 64 turns a control character into its letter, and 127 into `?`.
                text: [b'^', byte ^ 64, 0, 0],
                len: 2,
            },
            32..127 => Self::as_itself(byte),
            128.. => {
                let Self { text, len } = Self::visibly(byte - 128);
                Self {
                    text: [b'M', b'-', text[0], text[1]],
                    len: 2 + len,
                }
            }
        }
    }
}
