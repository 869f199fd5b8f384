//! Converts globs of arbitrary bytes into regular expressions on text.

use std::borrow::Cow;

use globset::{ErrorKind, GlobBuilder};

/// The first of 256 characters that stand for bytes that are not part of a UTF-8 character. They
/// are the last ones of Unicode, in a private use area.
const BYTES: u32 = 0x10_ff00;

/// Converts bytes to text. Each UTF-8 character, and each byte that is not part of one, becomes one
/// character. Different bytes become different text: a character that itself [stands for a
/// byte](BYTES) becomes one character for each of its bytes.
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

/// The character that stands for a byte.
fn byte(byte: u8) -> char {
    char::from_u32(BYTES + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Converts a glob into a regular expression, both on [text]. Only `**` matches `/`.
///
/// # Errors
///
/// The glob is malformed.
pub(super) fn to_regex(glob: &str) -> Result<String, ErrorKind> {
    let built = GlobBuilder::new(glob).literal_separator(true).build();
    let built = built.map_err(|error| error.kind().clone())?;
    Ok(on_characters(built.regex()))
}

/// Converts an expression of `globset`, which matches bytes, into one that matches characters.
/// `globset` writes a character beyond ASCII as its UTF-8 bytes, `\xc3\xa9`, even in a class, where
/// these are two elements. Its negated classes match `/`.
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
                        // A character beyond ASCII has no special meaning in an expression.
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
