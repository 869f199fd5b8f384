use super::*;

/// Whether a pattern leaves out a file of this path.
fn matches(pattern: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> bool {
    let exclude = Exclude::new([OsStr::from_bytes(pattern.as_ref())]).unwrap();
    let path = Path::new(OsStr::from_bytes(path.as_ref()));
    exclude.matches(path.file_name().unwrap(), false, || path)
}

#[test]
fn patterns_and_names_may_be_any_bytes() {
    for all in [
        &b"\xff"[..],
        b"a\xffb",
        b"\xc3",
        b"\xc3\xa9\xa9",
        b"\xed\xa0\x80",
    ] {
        assert!(matches(all, all), "{all:?}");
        assert!(!matches(all, [all, b"x"].concat()), "{all:?}");
        assert!(!matches(all, "a") && !matches("a", all), "{all:?}");
        assert!(matches([all, b"*"].concat(), [all, b"\xfe\n"].concat()));
        assert!(matches([b"/d/", all].concat(), [b"d/", all].concat()));
    }
    assert!(matches("*.o", b"\xff\xfe.o"));
    assert!(!matches(b"\xff", b"\xfe"));
    // This is what would be shown for both.
    assert!(!matches("\u{fffd}", b"\xff") && !matches(b"\xff", "\u{fffd}"));
}

#[test]
fn a_question_mark_is_one_character_or_one_byte_that_belongs_to_none() {
    for one in [
        &b"a"[..],
        "é".as_bytes(),
        "𝄞".as_bytes(),
        b"\xff",
        b"\xc3",
        b"\n",
        b"\\",
    ] {
        assert!(matches("?", one) && matches("[!b]", one), "{one:?}");
        assert!(!matches("??", one), "{one:?}");
        assert!(matches("[!b]?", [one, b"\xff"].concat()), "{one:?}");
    }
    assert!(matches("???", b"\xe9t\xe9"));
    // A character that is cut.
    assert!(matches("??", b"\xf0\x9d") && !matches("?", b"\xf0\x9d"));
    assert!(!matches("d?x", "d/x"));
}

#[test]
fn a_class_has_characters_and_bytes() {
    assert!(matches("[é]", "é") && !matches("[é]", "è"));
    assert!(!matches("[é]", b"\xc3") && !matches("[é]", b"\xa9"));
    assert!(matches("[à-ü]x", "éx") && !matches("[à-ü]x", "zx"));
    assert!(matches(b"[\xff\xfe]", b"\xfe") && !matches(b"[\xff\xfe]", b"\xfd"));
    assert!(matches(b"[\x80-\xff]", b"\xe9") && !matches(b"[\x80-\xff]", "é"));
    assert!(matches("[]^-]", "]") && matches("[]^-]", "^") && matches("[]^-]", "-"));
    assert!(matches("[&&]", "&") && matches("[~[]", "[") && matches("[~[]", "~"));
    assert!(matches("{é,[a-c]}", "é") && matches("{é,[a-c]}", "b"));
}

#[test]
fn no_class_matches_a_slash() {
    assert!(matches("/a[!b]c", "axc") && !matches("/a[!b]c", "a/c"));
    assert!(matches("/a[+-0]c", "a.c") && !matches("/a[+-0]c", "a/c"));
}

#[test]
fn newlines_and_backslashes_are_characters_like_others() {
    assert!(matches("a?b", "a\nb") && matches("a*", "a\n\nb") && matches("a\nb", "a\nb"));
    assert!(!matches("a", "a\n") && !matches("a", "\na"));
    assert!(matches("**/x", "a\nb/x"));
    assert!(matches(r"a\\b", r"a\b") && !matches(r"a\\b", "ab"));
    assert!(matches(r"\*", "*") && !matches(r"\*", "x"));
    assert!(matches(b"\\\xff", b"\xff"));
}

#[test]
fn characters_that_stand_for_bytes_are_none_of_these() {
    let stands_for = "\u{10ffff}";
    assert!(matches(stands_for, stands_for) && matches("*", stands_for));
    assert!(!matches(b"\xff", stands_for) && !matches(stands_for, b"\xff"));
    // The same in pattern and name.
    assert_ne!(glob::text(stands_for.as_bytes()), glob::text(b"\xff"));
}

#[test]
fn text_of_different_bytes_differs() {
    let mut seen = std::collections::HashMap::new();
    let pieces: [&[u8]; 8] = [
        b"a",
        b"\x80",
        b"\xc3",
        b"\xa9",
        b"\xff",
        "\u{10ff80}".as_bytes(),
        "\u{10ffff}".as_bytes(),
        b"\xf4\x8f\xbf",
    ];
    for number in 0..pieces.len().pow(4) {
        let digits = [1, 8, 64, 512].map(|unit| number / unit % 8);
        let bytes = digits.map(|digit| pieces[digit]).concat();
        let text = glob::text(&bytes).into_owned();
        if let Some(other) = seen.insert(text, bytes.clone()) {
            assert_eq!(other, bytes);
        }
    }
}

#[test]
fn what_is_wrong_with_a_pattern_is_told_with_its_bytes() {
    let wrong = |pattern: &[u8]| {
        let exclude = Exclude::new([OsStr::from_bytes(pattern)]);
        exclude.unwrap_err().to_string()
    };
    let unclosed = "unclosed character class; missing ']'";
    let invalid = |pattern: &[u8]| value::invalid("glob", OsStr::from_bytes(pattern));
    for pattern in [&b"[a"[..], b"[\xff"] {
        let message = format!("{}: {unclosed}", invalid(pattern));
        assert_eq!(wrong(pattern), message);
    }
    assert!(invalid(b"[\xff").contains("[\\377"));
    for pattern in [&b"a//b"[..], b""] {
        let message = format!("{}: no path has such a name", invalid(pattern));
        assert_eq!(wrong(pattern), message);
    }
}

#[test]
fn ten_thousand_patterns_are_not_too_many() {
    let patterns = (0..10_000).map(|n| format!("*-{n}-é?.[a-z]"));
    let exclude = Exclude::new(patterns).unwrap();
    let is_excluded = |name: &str| exclude.matches(name.as_ref(), false, || name);
    assert!(is_excluded("x-9999-éß.c") && !is_excluded("x-10000-éß.c"));
}
