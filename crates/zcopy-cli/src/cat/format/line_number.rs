//! Line numbers, counted in the text that is printed.

/// How many columns are kept as text: fifteen digits and the tab, so that one store prints them.
const COLUMNS: usize = 16;

/// Where among them the last digit is.
const LAST_DIGIT: usize = COLUMNS - 2;

/// A line's number, padded to six columns as GNU does, and its tab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineNumber {
    /// The first column is the lowest byte.
    text: u128,
    /// How many of the columns are printed.
    width: usize,
    /// What does not fit in the columns: how often they have run over.
    beyond: u64,
}

impl Default for LineNumber {
    /// In front of the first line.
    fn default() -> Self {
        Self {
            text: u128::from_le_bytes(*b"              0\t"),
            width: 7,
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
        if (self.text >> (8 * LAST_DIGIT)) as u8 == b'9' {
            self.carry();
        } else {
            self.text += 1 << (8 * LAST_DIGIT);
        }
    }

    /// The text in the columns, and how long it is. What stands behind it means nothing.
    #[inline]
    pub(super) fn columns(&self) -> ([u8; COLUMNS], usize) {
        let text = self.text >> (8 * (COLUMNS - self.width));
        (text.to_le_bytes(), self.width)
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
        number.text = u128::from_le_bytes(text.into_bytes().try_into().unwrap());
        number
    }

    #[cold]
    fn carry(&mut self) {
        let mut columns = self.text.to_le_bytes();
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
        self.text = u128::from_le_bytes(columns);
        self.beyond += u64::from(all_nines);
    }
}
