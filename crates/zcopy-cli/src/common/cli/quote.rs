//! Quoting of names in messages as GNU does it: names that a shell would read unchanged are not
//! quoted, and others are quoted so that they can be pasted into a shell.
//!
//! This is gnulib's `shell-escape` style, which here also quotes the colon, because a colon ends
//! names in messages. The crates for this quote otherwise: `os_display` writes `$'a\nb'` where GNU
//! writes `'a'$'\n''b'`.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

use crate::common::sys::locale;

/// Returns a name as GNU tools quote it in messages.
///
/// # Examples
///
/// ```
/// use zcopy_cli::common::cli::quote::quoted;
///
/// assert_eq!(quoted("plain.txt".as_ref()), "plain.txt");
/// assert_eq!(quoted("two words".as_ref()), "'two words'");
/// assert_eq!(quoted("it's".as_ref()), "\"it's\"");
/// assert_eq!(quoted("a\nb".as_ref()), "'a'$'\\n''b'");
/// ```
#[must_use]
pub fn quoted(name: &OsStr) -> String {
    let pieces = pieces(name.as_bytes());
    if !needs_quotes(&pieces) {
        return pieces.into_iter().filter_map(Piece::character).collect();
    }
    let has_apostrophe = pieces.contains(&Piece::Printable('\''));
    let rest = match &pieces[..] {
        [Piece::Printable('#' | '~'), rest @ ..] => rest,
        pieces => pieces,
    };
    if has_apostrophe && rest.iter().copied().all(is_safe_in_double_quotes) {
        let name: String = pieces.into_iter().filter_map(Piece::character).collect();
        return format!("\"{name}\"");
    }
    in_single_quotes(&pieces)
}

/// Returns an argument as GNU tools quote it when they reject it: in the locale's quotation marks,
/// which is gnulib's `locale` style.
///
/// # Examples
///
/// ```
/// use zcopy_cli::common::cli::quote::argument;
///
/// let quoted = argument("a\nb".as_ref());
/// assert!(["‘a\\nb’", "'a\\nb'"].contains(&quoted.as_str()));
/// ```
#[must_use]
pub fn argument(argument: &OsStr) -> String {
    let (left, right) = if locale::is_utf8() {
        ('‘', '’')
    } else {
        ('\'', '\'')
    };
    let mut quoted = String::from(left);
    for piece in pieces(argument.as_bytes()) {
        match piece {
            Piece::Printable(character) => {
                if character == '\\' || character == right {
                    quoted.push('\\');
                }
                quoted.push(character);
            }
            Piece::Escaped(byte) => push_escape(&mut quoted, byte),
        }
    }
    quoted.push(right);
    quoted
}

/// Returns the text with escapes for characters that the locale cannot print, and without quotes: for
/// messages about options. A file name that a pattern of the shell matches may be taken for an option,
/// and `getopt_long(3)` does not escape it. A typed backslash stays one backslash, so that the typed
/// characters `\033` look like an escape.
///
/// # Examples
///
/// ```
/// use zcopy_cli::common::cli::quote::escape_unprintable;
///
/// assert_eq!(escape_unprintable("--a\u{1b}[31m"), "--a\\033[31m");
/// ```
#[must_use]
pub fn escape_unprintable(text: &str) -> String {
    let mut shown = String::new();
    for piece in pieces(text.as_bytes()) {
        match piece {
            Piece::Printable(character) => shown.push(character),
            Piece::Escaped(byte) => push_escape(&mut shown, byte),
        }
    }
    shown
}

/// A part of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    /// A character that is written unchanged.
    Printable(char),
    /// A byte that is written as an octal number or a letter.
    Escaped(u8),
}

impl Piece {
    fn character(self) -> Option<char> {
        match self {
            Piece::Printable(character) => Some(character),
            Piece::Escaped(_) => None,
        }
    }
}

fn pieces(name: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            if locale::is_printable(character) {
                pieces.push(Piece::Printable(character));
            } else {
                let mut bytes = [0; 4];
                let bytes = character.encode_utf8(&mut bytes).bytes();
                pieces.extend(bytes.map(Piece::Escaped));
            }
        }
        pieces.extend(chunk.invalid().iter().copied().map(Piece::Escaped));
    }
    pieces
}

/// Returns whether a shell or the reader of a message would misread the unquoted name.
fn needs_quotes(pieces: &[Piece]) -> bool {
    match pieces {
        [] | [Piece::Printable('{' | '}')] | [Piece::Printable('#' | '~'), ..] => true,
        pieces => pieces.iter().any(|piece| match piece {
            Piece::Escaped(_) => true,
            Piece::Printable(character) => " !\"$&()*;<=>[^`|'?\\:".contains(*character),
        }),
    }
}

/// Returns whether gnulib may put this between double quotes if the text has an apostrophe: it
/// means the same there, in C too. A `#` or a `~` may precede it.
fn is_safe_in_double_quotes(piece: Piece) -> bool {
    match piece {
        Piece::Printable(character) if character.is_ascii() => {
            character.is_ascii_alphanumeric() || " %+,-./:@]_'".contains(character)
        }
        Piece::Printable(_) => true,
        Piece::Escaped(_) => false,
    }
}

fn in_single_quotes(pieces: &[Piece]) -> String {
    let mut quoted = String::from("'");
    let mut is_escaping = false;
    for piece in pieces {
        let is_escape = matches!(piece, Piece::Escaped(_));
        match (is_escaping, is_escape) {
            (false, true) => quoted.push_str("'$'"),
            (true, false) if *piece != Piece::Printable('\'') => quoted.push_str("''"),
            _ => {}
        }
        is_escaping = is_escape;
        match piece {
            Piece::Printable('\'') => quoted.push_str(r"'\''"),
            Piece::Printable(character) => quoted.push(*character),
            Piece::Escaped(byte) => push_escape(&mut quoted, *byte),
        }
    }
    quoted.push('\'');
    quoted
}

fn push_escape(quoted: &mut String, byte: u8) {
    let letter = match byte {
        0x07 => 'a',
        0x08 => 'b',
        b'\t' => 't',
        b'\n' => 'n',
        0x0b => 'v',
        0x0c => 'f',
        b'\r' => 'r',
        _ => {
            // Writing to a string cannot fail.
            let _ = write!(quoted, "\\{byte:03o}");
            return;
        }
    };
    quoted.push('\\');
    quoted.push(letter);
}
