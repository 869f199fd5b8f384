//! Caret notation: how GNU cat shows nonprinting bytes (`^X`, `M-X`).

use super::FormatOptions;

/// The longest text of a byte: `M-^X`.
pub(super) const MAX_CARET_LEN: usize = 4;

/// The text of a byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caret {
    /// The text, padded by zeros.
    pub(super) text: [u8; MAX_CARET_LEN],
    /// The length of the text.
    pub(super) len: u32,
}

/// The text of each byte.
pub(super) type CaretTable = [Caret; 256];

/// Returns the text of each byte. The caller handles a carriage return before a newline.
#[inline]
pub(super) fn table(options: FormatOptions) -> &'static CaretTable {
    static TABLES: [[CaretTable; 2]; 2] = [
        [table_of(false, false), table_of(false, true)],
        [table_of(true, false), table_of(true, true)],
    ];
    &TABLES[usize::from(options.show_nonprinting)][usize::from(options.show_tabs)]
}

/// Returns the text of a nonprinting byte or tab.
#[inline]
pub(super) fn caret(byte: u8) -> Caret {
    static ALL: CaretTable = table_of(true, true);
    ALL[usize::from(byte)]
}

const fn table_of(nonprinting: bool, tabs: bool) -> CaretTable {
    let mut table = [Caret::literal(0); 256];
    let mut byte = 0;
    while byte < 256 {
        let is_shown = match byte as u8 {
            b'\n' => false,
            b'\t' => tabs,
            _ => nonprinting,
        };
        table[byte] = if is_shown {
            Caret::of(byte as u8)
        } else {
            Caret::literal(byte as u8)
        };
        byte += 1;
    }
    table
}

impl Caret {
    const fn literal(byte: u8) -> Self {
        Self {
            text: [byte, 0, 0, 0],
            len: 1,
        }
    }

    const fn of(byte: u8) -> Self {
        match byte {
            0..32 | 127 => Self {
                // Flipping bit 6 turns a control character into its letter, and 127 into `?`.
                text: [b'^', byte ^ 64, 0, 0],
                len: 2,
            },
            32..127 => Self::literal(byte),
            128.. => {
                let Self { text, len } = Self::of(byte - 128);
                Self {
                    text: [b'M', b'-', text[0], text[1]],
                    len: 2 + len,
                }
            }
        }
    }
}
