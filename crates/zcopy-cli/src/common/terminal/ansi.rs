//! Text for terminals: its width, cuts to a width, and removal of control characters.

use unicode_width::UnicodeWidthChar;

/// The variation selector that asks for the wide form of the character before it, which would then
/// take more columns.
const WIDE_FORM: char = '\u{fe0f}';

/// Returns the number of columns of a line. Escape sequences have none.
///
/// # Examples
///
/// ```
/// use zcopy_cli::common::terminal::ansi::width;
///
/// assert_eq!(width("abc"), 3);
/// assert_eq!(width("日本"), 4);
/// assert_eq!(width("\x1b[1;31mabc\x1b[m"), 3);
/// ```
#[must_use]
pub fn width(line: &str) -> usize {
    Spans(line).map(Span::columns).sum()
}

/// Cuts a line to a number of columns, but keeps every escape sequence of the rest, so that colours
/// end.
///
/// # Examples
///
/// ```
/// use zcopy_cli::common::terminal::ansi::cut;
///
/// assert_eq!(cut("abcdef", 3), "abc");
/// assert_eq!(cut("日本", 3), "日");
/// assert_eq!(cut("\x1b[31mabcdef\x1b[m", 3), "\x1b[31mabc\x1b[m");
/// ```
#[must_use]
pub fn cut(line: &str, columns: usize) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut left = Some(columns);
    for span in Spans(line) {
        match span {
            Span::Escape(sequence) => shown.push_str(sequence),
            Span::Char(c) => {
                // After the first character that does not fit, no narrower one is taken.
                left = left.and_then(|left| left.checked_sub(span.columns()));
                if left.is_some() {
                    shown.push(c);
                }
            }
        }
    }
    shown
}

/// Replaces control characters by blanks. Keeps the sequences for colours and operating system
/// commands, which do not move the cursor.
///
/// # Examples
///
/// ```
/// use zcopy_cli::common::terminal::ansi::harmless;
///
/// assert_eq!(harmless("a\tb\x1b[1mc\nd"), "a b\x1b[1mc d");
/// assert_eq!(harmless("\x1b[2Jab\x1b"), " [2Jab ");
/// ```
#[must_use]
pub fn harmless(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for span in Spans(line) {
        match span {
            Span::Escape(sequence) => shown.push_str(sequence),
            Span::Char(WIDE_FORM) => {}
            Span::Char(c) => shown.push(visible(c)),
        }
    }
    shown
}

/// Formats a name or a line of data in exactly `columns` columns, or in its own width.
///
/// The terminal interprets nothing of the result. Blanks replace control characters, bytes that are
/// not UTF-8, and all characters beyond ASCII unless `utf8` is set.
///
/// # Examples
///
/// ```
/// use zcopy_cli::common::terminal::ansi::plain;
///
/// assert_eq!(plain(b"one\ttwo\x1b[1m", Some(9), true), "one two [");
/// assert_eq!(plain("é".as_bytes(), Some(4), true), "é   ");
/// assert_eq!(plain("é".as_bytes(), Some(4), false), "    ");
/// assert_eq!(plain(b"name", None, true), "name");
/// ```
#[must_use]
pub fn plain(bytes: &[u8], columns: Option<usize>, utf8: bool) -> String {
    let mut shown = String::new();
    let mut taken = 0;
    let limit = columns.unwrap_or(usize::MAX);
    'all: for chunk in bytes.utf8_chunks() {
        let blanks = chunk.invalid().iter().map(|_| '\u{fffd}');
        for c in chunk.valid().chars().chain(blanks) {
            let c = match c {
                WIDE_FORM => continue,
                '\u{fffd}' => ' ',
                c if !c.is_ascii() && !utf8 => ' ',
                c => visible(c),
            };
            let wide = c.width().unwrap_or(0);
            if wide > limit - taken {
                break 'all;
            }
            taken += wide;
            shown.push(c);
        }
    }
    let padding = columns.map_or(0, |columns| columns - taken);
    shown.extend(std::iter::repeat_n(' ', padding));
    shown
}

/// Formats the last bytes in `columns` columns, one for each byte. Dots replace bytes that are
/// missing or not printable.
///
/// # Examples
///
/// ```
/// use zcopy_cli::common::terminal::ansi::dotted;
///
/// assert_eq!(dotted(b"end\n", 3), "nd.");
/// assert_eq!(dotted(b"", 3), "...");
/// ```
#[must_use]
pub fn dotted(bytes: &[u8], columns: usize) -> String {
    let last = &bytes[bytes.len().saturating_sub(columns)..];
    let mut shown = ".".repeat(columns - last.len());
    shown.extend(last.iter().map(|byte| match byte {
        b' '..=b'~' => char::from(*byte),
        _ => '.',
    }));
    shown
}

/// Replaces a control character by a blank.
fn visible(c: char) -> char {
    // Line and paragraph separators end a line on some terminals.
    if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
        ' '
    } else {
        c
    }
}

/// A part of a line: a visible character or an escape sequence.
#[derive(Clone, Copy)]
enum Span<'a> {
    Char(char),
    Escape(&'a str),
}

impl Span<'_> {
    fn columns(self) -> usize {
        match self {
            Self::Char(c) => c.width().unwrap_or(0),
            Self::Escape(_) => 0,
        }
    }
}

/// An iterator over the parts of a line.
struct Spans<'a>(&'a str);

impl<'a> Iterator for Spans<'a> {
    type Item = Span<'a>;

    fn next(&mut self) -> Option<Span<'a>> {
        if let Some(end) = escape(self.0) {
            let (sequence, rest) = self.0.split_at(end);
            self.0 = rest;
            return Some(Span::Escape(sequence));
        }
        let mut chars = self.0.chars();
        let c = chars.next()?;
        self.0 = chars.as_str();
        Some(Span::Char(c))
    }
}

/// Returns the end of the escape sequence at the beginning of a line.
///
/// Recognizes the sequences that never move the cursor: colours (`ESC [ … m`) and operating system
/// commands (`ESC ] … BEL` or `ESC ] … ESC \`).
fn escape(line: &str) -> Option<usize> {
    if let Some(rest) = line.strip_prefix("\x1b[") {
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | ';' | ':'))?;
        return rest[end..].starts_with('m').then_some(2 + end + 1);
    }
    let rest = line.strip_prefix("\x1b]")?;
    let end = rest.find(|c: char| c.is_control())?;
    let terminator = ["\x07", "\x1b\\"]
        .into_iter()
        .find(|terminator| rest[end..].starts_with(terminator))?;
    Some(2 + end + terminator.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_take_no_columns_and_survive_a_cut() {
        let line = "\x1b]9;4;1;50\x1b\\a\x1b[1;31mb\x1b]0;t\x07c\x1b[m";
        assert_eq!(width(line), 3);
        assert_eq!(
            cut(line, 1),
            "\x1b]9;4;1;50\x1b\\a\x1b[1;31m\x1b]0;t\x07\x1b[m"
        );
        assert_eq!(harmless(line), line);
    }

    #[test]
    fn sequences_that_move_the_cursor_or_never_end_are_no_escapes() {
        for line in [
            "\x1b[2J",
            "\x1b[H",
            "\x1b[1;31",
            "\x1b]0;t",
            "\x1b",
            "\x1bc",
            "\x1b[31\x1b",
        ] {
            assert!(!harmless(line).contains('\x1b'), "{line:?}");
        }
    }

    #[test]
    fn a_wide_character_that_does_not_fit_leaves_its_column_free() {
        assert_eq!(cut("a日b", 2), "a");
        assert_eq!(plain("a日b".as_bytes(), Some(2), true), "a ");
        assert_eq!(width(&plain("日本日本".as_bytes(), Some(5), true)), 5);
    }

    #[test]
    fn combining_characters_stay_with_what_they_combine_with() {
        assert_eq!(cut("e\u{301}x", 1), "e\u{301}");
        assert_eq!(plain("❤\u{fe0f}".as_bytes(), None, true), "❤");
    }

    #[test]
    fn lines_of_data_are_as_pv_shows_them() {
        let line = b"ab\tc\x1b[1m h\xff zzz";
        assert_eq!(plain(line, Some(20), true), "ab c [1m h  zzz     ");
        assert_eq!(plain(line, Some(5), true), "ab c ");
        assert_eq!(
            dotted("b\tc\x1b[1m h\u{e9}\u{65e5} zzz\n".as_bytes(), 16),
            ".[1m h..... zzz."
        );
    }

    #[test]
    fn what_has_no_columns_to_go_to_is_not_shown() {
        assert_eq!(plain(b"abc", Some(0), true), "");
        assert_eq!(dotted(b"abc", 0), "");
        assert_eq!(cut("abc", 0), "");
    }
}
