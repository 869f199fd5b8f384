//! How wide a line is where it is shown.

use std::str::Chars;

use unicode_width::UnicodeWidthChar as _;

/// How many columns of a terminal the line takes. Escape sequences take none.
#[must_use]
pub fn columns(line: &str) -> usize {
    let mut characters = line.chars();
    let mut columns = 0;
    while let Some(character) = characters.next() {
        match character {
            '\x1b' => skip_sequence(&mut characters),
            shown => columns += shown.width().unwrap_or(0),
        }
    }
    columns
}

/// Skips what follows an ESC, by ECMA-48: a control sequence to its final byte, an operating system command to
/// its terminator, or a single character.
fn skip_sequence(characters: &mut Chars<'_>) {
    match characters.next() {
        Some('[') => {
            characters.find(|character| ('\x40'..='\x7e').contains(character));
        }
        Some(']') => {
            // The terminator is BEL, or ESC and a backslash.
            let end = characters.find(|character| matches!(character, '\x07' | '\x1b'));
            if end == Some('\x1b') {
                characters.next();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn escape_sequences_take_no_columns() {
        for (line, expected) in [
            ("", 0),
            ("1.5GiB", 6),
            ("\x1b[1;32m57%\x1b[0m", 3),
            ("\x1b]9;4;1;57\x1b\\57%", 3),
            ("\x1b]2;title\x0757%", 3),
            ("\x1b]2;never ends", 0),
        ] {
            assert_eq!(columns(line), expected, "{line:?}");
        }
    }

    #[test]
    fn wide_characters_take_two_and_combining_ones_none() {
        assert_eq!(columns("████▌"), 5);
        assert_eq!(columns("名前"), 4);
        assert_eq!(columns("e\u{301}"), 1);
    }
}
