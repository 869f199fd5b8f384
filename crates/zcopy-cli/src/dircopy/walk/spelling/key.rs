//! Names that a file system may not tell apart (pure).

use std::ffi::{CStr, CString};
use std::hash::{DefaultHasher, Hasher as _};

use unicode_normalization::UnicodeNormalization as _;

/// Folds a name as a file system would that combines the rules of all: it ignores case,
/// composition, and dots and spaces at the end.
///
/// Names that fold differently are different on every file system. Names that fold to the same must
/// be tried.
pub(crate) fn fold(name: &[u8]) -> Vec<u8> {
    let is_ignored = |byte: &&u8| matches!(byte, b'.' | b' ');
    let n_ignored = name.iter().rev().take_while(is_ignored).count();
    let name = match name.len() - n_ignored {
        0 => name,
        end => &name[..end],
    };
    match str::from_utf8(name) {
        Ok(text) if !text.is_ascii() => {
            let folded: String = text.nfd().map(fold_char).nfd().collect();
            folded.into_bytes()
        }
        _ => name.to_ascii_lowercase(),
    }
}

/// Folds each name of a path.
pub(crate) fn fold_path(path: &[u8]) -> Vec<u8> {
    let names: Vec<_> = path.split(|byte| *byte == b'/').map(fold).collect();
    names.join(&b'/')
}

/// The hash of a folded name or path.
pub(crate) fn hash(name: &[u8]) -> u64 {
    hash_of(&fold_path(name))
}

/// The hash of bytes.
pub(crate) fn hash_of(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Other spellings of a name, which a file system that folds names finds too.
pub(crate) fn variants(name: &CStr) -> Vec<CString> {
    let bytes = name.to_bytes();
    let mut variants: Vec<Vec<u8>> = Vec::new();
    match name.to_str() {
        Ok(text) if !text.is_ascii() => {
            variants.push(text.chars().map(swap_case).collect::<String>().into_bytes());
            variants.push(text.nfd().collect::<String>().into_bytes());
            variants.push(text.nfc().collect::<String>().into_bytes());
        }
        _ => variants.push(bytes.iter().copied().map(swap_ascii_case).collect()),
    }
    variants.retain(|variant| variant != bytes);
    // The variants of a name have no zero byte.
    variants
        .into_iter()
        .filter_map(|variant| CString::new(variant).ok())
        .collect()
}

fn swap_ascii_case(byte: u8) -> u8 {
    if byte.is_ascii_uppercase() {
        byte.to_ascii_lowercase()
    } else {
        byte.to_ascii_uppercase()
    }
}

fn fold_char(char: char) -> char {
    lower(upper(char))
}

fn swap_case(char: char) -> char {
    let upper = upper(char);
    if upper == char { lower(char) } else { upper }
}

fn upper(char: char) -> char {
    single(char.to_uppercase()).unwrap_or(char)
}

fn lower(char: char) -> char {
    single(char.to_lowercase()).unwrap_or(char)
}

/// The only letter; `None` if there are more. File systems map each letter to one.
fn single(mut letters: impl Iterator<Item = char>) -> Option<char> {
    let letter = letters.next()?;
    letters.next().is_none().then_some(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_one(a: &str, b: &str) -> bool {
        fold(a.as_bytes()) == fold(b.as_bytes())
    }

    #[test]
    fn names_that_differ_in_case_or_composition_may_be_one() {
        assert!(is_one("README", "ReadMe"));
        assert!(is_one("É", "e\u{301}"));
        assert!(is_one("ΣΑΣ", "σας"));
        assert!(is_one("\u{212a}elvin", "kelvin"));
        assert!(is_one("a.", "A"));
        assert!(!is_one("a", "b"));
        assert!(!is_one("straße", "strasse"));
        assert!(!is_one(".", ".."));
    }

    #[test]
    fn bytes_that_are_no_text_are_folded_where_they_are_ascii() {
        assert_eq!(fold(b"A\xff"), b"a\xff");
        assert_ne!(fold(b"\xc9"), fold(b"\xe9"));
    }

    #[test]
    fn paths_are_folded_name_by_name() {
        assert_eq!(fold_path(b"Dir./README"), b"dir/readme");
        assert_eq!(hash(b"Dir/x"), hash(b"dir/X"));
        assert_ne!(hash(b"dir/x"), hash(b"dir/y"));
    }

    #[test]
    fn variants_are_spelled_otherwise() {
        assert_eq!(variants(c"Read me 1"), [c"rEAD ME 1".to_owned()]);
        assert!(variants(c"0001").is_empty());
        let of_accent = variants(c"\xc3\xa9");
        assert_eq!(
            of_accent,
            ["É", "e\u{301}"].map(|name| CString::new(name).unwrap())
        );
    }
}
