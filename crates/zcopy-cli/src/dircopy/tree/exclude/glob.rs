//! Globs of any bytes, as regular expressions on text.

use std::borrow::Cow;

use globset::{ErrorKind, GlobBuilder};

/// The first of 256 characters that stand for bytes that belong to no character of UTF-8. They are for private use, at the very end
/// of Unicode.
const BYTES: u32 = 0x10_ff00;

/// Bytes as text, so that each character of UTF-8, and each byte that belongs to none, is one character. Different bytes are
/// different text: a character that [stands for a byte](BYTES) is taken for the bytes that it consists of.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    let is_plain = |text: &str| text.chars().all(|c| u32::from(c) < BYTES);
    if let Ok(text) = str::from_utf8(bytes)
        && (text.is_ascii() || is_plain(text))
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if u32::from(c) < BYTES {
                text.push(c);
            } else {
                text.extend(c.encode_utf8(&mut [0; 4]).bytes().map(byte));
            }
        }
        text.extend(chunk.invalid().iter().copied().map(byte));
    }
    Cow::Owned(text)
}

/// What stands for a byte.
fn byte(byte: u8) -> char {
    char::from_u32(BYTES + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The regular expression for a glob, both on [text]. Only `**` matches `/`.
///
/// # Errors
///
/// The glob is malformed.
pub(super) fn to_regex(glob: &str) -> Result<String, ErrorKind> {
    let built = GlobBuilder::new(glob).literal_separator(true).build();
    let built = built.map_err(|error| error.kind().clone())?;
    Ok(on_characters(built.regex()))
}

/// Makes an expression on characters of what `globset` makes on bytes. There a character beyond ASCII is written as the bytes of its
/// UTF-8, `\xc3\xa9`, also in a class, where that would be two characters; and a class that is negated matches `/`.
fn on_characters(regex: &str) -> String {
    let mut rest = regex.strip_prefix("(?-u)").unwrap_or(regex).chars();
    let mut characters = String::new();
    let mut escaped = Vec::new();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('x') => {
                    let digits: String = rest.by_ref().take(2).collect();
                    escaped.extend(u8::from_str_radix(&digits, 16));
                    if let Ok(character) = str::from_utf8(&escaped) {
                        // No character beyond ASCII means anything in an expression.
                        characters.push_str(character);
                        escaped.clear();
                    }
                }
                next => {
                    characters.push('\\');
                    characters.extend(next);
                }
            },
            '[' => characters.push_str("[["),
            ']' => characters.push_str("]&&[^/]]"),
            c => characters.push(c),
        }
    }
    characters
}
