//! Line numbers, counted in the text that is printed.

/// How many columns are kept as text: fifteen digits and the tab, so that one store prints them.
const COLUMNS: usize = 16;

/// Where among them the last digit is.
const LAST_DIGIT: usize = COLUMNS - 2;

/// A line's number, padded to six columns as GNU does, and its tab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineNumber {
    /// The columns that are printed, the first one in the lowest byte.
    text: u128,
    /// How many those are.
    width: usize,
    /// One in the column of the last digit.
    one: u128,
    /// The last digit.
    last: u8,
    /// What does not fit in the columns: how often they have run over.
    beyond: u64,
}

impl Default for LineNumber {
    /// In front of the first line.
    fn default() -> Self {
        Self {
            text: u128::from_le_bytes(*b"     0\t\0\0\0\0\0\0\0\0\0"),
            width: 7,
            one: 1 << (8 * 5),
            last: 0,
            beyond: 0,
        }
    }
}

impl LineNumber {
    /// The most bytes that one takes: the digits of the largest `u64`, and the tab.
    pub(super) const WIDEST: usize = 20 + 1;

    /// Goes on to the next line's.
    #[inline]
    pub(super) fn advance(&mut self) {
        if self.last == 9 {
            self.carry();
        } else {
            self.last += 1;
            self.text += self.one;
        }
    }

    /// The text in the columns, and how long it is. What stands behind it means nothing.
    #[inline]
    pub(super) fn columns(&self) -> ([u8; COLUMNS], usize) {
        (self.text.to_le_bytes(), self.width)
    }

    /// The number whose digits go before the columns, if these do not hold all of them.
    #[inline]
    pub(super) fn beyond_columns(&self) -> Option<u64> {
        (self.beyond > 0).then_some(self.beyond)
    }

    /// How many bytes it takes.
    pub(super) fn width(&self) -> usize {
        let digits_beyond = self.beyond.checked_ilog10().map_or(0, |log| log + 1);
        self.width + digits_beyond as usize
    }

    /// The number of the line that comes after so many, as yet of the one before it.
    #[cfg(test)]
    pub(super) fn after(lines: u64) -> Self {
        let mut number = Self {
            beyond: lines / 10_u64.pow(15),
            ..Self::default()
        };
        let text = if number.beyond > 0 {
            format!("{:015}\t", lines % 10_u64.pow(15))
        } else {
            format!("{lines:15}\t")
        };
        number.width = text.trim_start_matches(' ').len().max(number.width);
        number.lay_out(text.into_bytes().try_into().unwrap());
        number
    }

    /// Keeps of all columns those that are printed.
    fn lay_out(&mut self, columns: [u8; COLUMNS]) {
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
        self.lay_out(columns);
        self.beyond += u64::from(all_nines);
    }
}
