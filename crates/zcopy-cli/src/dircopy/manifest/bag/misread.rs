//! Names that other programs may misread in the manifest of a bag.
//!
//! RFC 8493 encodes line feeds, carriage returns and percent signs. `bagit.py` 1.9 is the program
//! that most others are compared with. It divides lines as Python's `str.splitlines` does, removes
//! white space at their ends, decodes no percent sign, and decodes two line feeds and two carriage
//! returns in a path.

/// Why other programs may misread the line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Misreading {
    #[error("bagit.py 1.9 cannot find it, and so may others: a character divides its line in two")]
    LineBreak,
    #[error("bagit.py 1.9 cannot find it, and so may others: its name ends with white space")]
    BlankEnd,
    #[error("bagit.py 1.9 cannot find it, and so may others: its line has %25 for a percent sign")]
    PercentSign,
    #[error(
        "bagit.py 1.9 cannot find it: its path has more than two line feeds or carriage returns"
    )]
    ManyBreaks,
}

impl Misreading {
    /// Whether other programs may misread the line of this path. It has no line if it is not UTF-8.
    pub(super) fn of(path: &[u8]) -> Option<Self> {
        let path = str::from_utf8(path).ok()?;
        let has_many = |wanted| path.matches(wanted).count() > 2;
        if path.contains(divides_lines) {
            Some(Self::LineBreak)
        } else if path.ends_with(is_blank) {
            Some(Self::BlankEnd)
        } else if path.contains('%') {
            Some(Self::PercentSign)
        } else if has_many('\n') || has_many('\r') {
            Some(Self::ManyBreaks)
        } else {
            None
        }
    }
}

/// Whether Python divides lines at a character that is not encoded.
fn divides_lines(found: char) -> bool {
    matches!(
        found,
        '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// Whether Python takes a character that is not encoded for white space.
fn is_blank(found: char) -> bool {
    let is_encoded = matches!(found, '\n' | '\r');
    !is_encoded && (found.is_whitespace() || matches!(found, '\u{1c}'..='\u{1f}'))
}

/// The files whose lines other programs may misread, as far as they are few.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Misread {
    pub(crate) files: Vec<(Vec<u8>, Misreading)>,
    /// How many more there are.
    pub(crate) n_more: u64,
}

impl Misread {
    /// The most files that are named.
    const MAX_NAMED: usize = 100;

    /// Adds a file if other programs may misread its line. `path` begins at the root of the bag,
    /// and `named` is the path to report.
    pub(super) fn add(&mut self, path: &[u8], named: &[u8]) {
        let Some(misreading) = Misreading::of(path) else {
            return;
        };
        if self.files.len() < Self::MAX_NAMED {
            self.files.push((named.to_vec(), misreading));
        } else {
            self.n_more += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_of_many_files_are_named() {
        let mut misread = Misread::default();
        for _ in 0..103 {
            misread.add(b"data/100%", b"100%");
        }
        misread.add(b"data/100", b"100");
        assert_eq!((misread.files.len(), misread.n_more), (100, 3));
        let named = (b"100%".to_vec(), Misreading::PercentSign);
        assert_eq!(misread.files[0], named);
    }
}
