//! [`LineNumber`]: a line number that counts in its decimal text.

/// The size of the text: fifteen digits and the tab, so that one store writes it.
const COLUMNS: usize = 16;

/// The index of the last digit in the text.
const LAST_DIGIT: usize = COLUMNS - 2;

/// A line number, padded to six columns as by GNU cat, and its tab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineNumber {
    /// The columns to print, the first one in the lowest byte.
    text: u128,
    /// How many columns to print.
    width: usize,
    /// The number 1 in the column of the last digit.
    one: u128,
    /// The last digit.
    last: u8,
    /// How often the columns have overflowed: the digits in front of them.
    overflow: u64,
}

impl Default for LineNumber {
    /// Returns 0, the number before that of the first line.
    fn default() -> Self {
        Self {
            text: u128::from_le_bytes(*b"     0\t\0\0\0\0\0\0\0\0\0"),
            width: 7,
            one: 1 << (8 * 5),
            last: 0,
            overflow: 0,
        }
    }
}

impl LineNumber {
    /// The length of the longest number: the digits of the largest `u64`, and the tab.
    pub(super) const WIDEST: usize = 20 + 1;

    /// Advances to the next number.
    #[inline]
    pub(super) fn advance(&mut self) {
        if self.last == 9 {
            self.carry();
        } else {
            self.last += 1;
            self.text += self.one;
        }
    }

    /// Returns the columns, and how many of them to print.
    #[inline]
    pub(super) fn columns(&self) -> ([u8; COLUMNS], usize) {
        (self.text.to_le_bytes(), self.width)
    }

    /// Returns the number whose digits precede the columns, if the columns have overflowed.
    #[inline]
    pub(super) fn overflow(&self) -> Option<u64> {
        (self.overflow > 0).then_some(self.overflow)
    }

    /// Returns the length of the text.
    pub(super) fn width(&self) -> usize {
        let overflow_digits = self.overflow.checked_ilog10().map_or(0, |log| log + 1);
        self.width + overflow_digits as usize
    }

    /// Returns the number of the last one of this many lines.
    #[cfg(test)]
    pub(super) fn after(lines: u64) -> Self {
        let mut number = Self {
            overflow: lines / 10_u64.pow(15),
            ..Self::default()
        };
        let text = if number.overflow > 0 {
            format!("{:015}\t", lines % 10_u64.pow(15))
        } else {
            format!("{lines:15}\t")
        };
        number.width = text.trim_start_matches(' ').len().max(number.width);
        number.set_columns(text.into_bytes().try_into().unwrap());
        number
    }

    /// Sets the text to the columns that are printed.
    fn set_columns(&mut self, columns: [u8; COLUMNS]) {
        self.text = u128::from_le_bytes(columns) >> (8 * (COLUMNS - self.width));
        self.one = 1 << (8 * (self.width - 2));
        self.last = columns[LAST_DIGIT] - b'0';
    }

    #[cold]
    fn carry(&mut self) {
        let blank = COLUMNS - self.width;
        let mut columns = (self.text << (8 * blank)).to_le_bytes();
        columns[..blank].fill(b' ');
        let mut all_nines = true;
        for (column, digit) in columns[..=LAST_DIGIT].iter_mut().enumerate().rev() {
            if *digit == b'9' {
                *digit = b'0';
                continue;
            }
            *digit = if *digit == b' ' { b'1' } else { *digit + 1 };
            self.width = self.width.max(COLUMNS - column);
            all_nines = false;
            break;
        }
        self.set_columns(columns);
        self.overflow += u64::from(all_nines);
    }
}
