//! How bytes are shown that cannot be seen.

/// How a byte is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    /// The text, and after it bytes that mean nothing.
    pub(super) text: [u8; 4],
    /// The length of the text.
    pub(super) len: u8,
}

/// Every byte as itself, and every byte as `^X`, `M-X` or `M-^X`, if it does not print.
pub(super) static SHOWN: [[Shown; 256]; 2] = {
    let mut table = [[Shown::as_itself(0); 256]; 2];
    let mut byte = 0;
    while byte < 256 {
        table[0][byte] = Shown::as_itself(byte as u8);
        table[1][byte] = Shown::visibly(byte as u8);
        byte += 1;
    }
    table
};

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
