use std::os::unix::ffi::OsStrExt as _;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::common::cli::quote;

/// Appends the bytes unchanged.
pub(super) fn unformatted(bytes: &[u8], out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(bytes);
    0
}

/// Colours a line, and returns it with red between `<` and `>` and blue between `(` and `)`.
fn highlighted(rules: &[&str], line: &str) -> String {
    let rule = |highlighter: Highlighter, rule: &&str| highlighter.spec(rule.as_ref()).unwrap();
    let mut out = Vec::new();
    rules
        .iter()
        .fold(Highlighter::new(), rule)
        .push(line.as_bytes(), unformatted, &mut out);
    let mut out = String::from_utf8(out).unwrap();
    for (begin, open, close) in [("\x1b[31m", "<", ">"), ("\x1b[34m", "(", ")")] {
        while let Some(at) = out.find(begin) {
            let end = at + out[at..].find("\x1b[0m").unwrap();
            out.replace_range(end..end + 4, close);
            out.replace_range(at..at + begin.len(), open);
        }
    }
    out
}

#[test]
fn the_match_of_a_pattern_is_coloured() {
    for (rules, line, coloured) in [
        (&["b+=red"][..], "abbcb\n", "a<bb>c<b>\n"),
        (&["b=red"], "bb", "<bb>"),
        (&["x=red"], "abc\n", "abc\n"),
        (&["=red"], "abc\n", "abc\n"),
        (&["x*=red"], "axb\n", "a<x>b\n"),
        (&["a=b=red"], "aba=b\n", "ab<a=b>\n"),
        (&["(?i)É=red"], "éÉ\n", "<éÉ>\n"),
        (&["log=red"], "a log\n", "a <log>\n"),
    ] {
        assert_eq!(highlighted(rules, line), coloured, "{rules:?}");
    }
}

#[test]
fn groups_are_coloured_instead_of_the_match() {
    for (rule, line, coloured) in [
        (r"id=(\d+)=red", "id=1 id=22\n", "id=<1> id=<22>\n"),
        (r"(a)(b)?=red", "ac ab\n", "<a>c <ab>\n"),
        (r"a(b)?=red", "a ab\n", "a a<b>\n"),
        (r"((a)b)c=red", "abc\n", "<ab>c\n"),
        (r"(?:a)=red", "ba\n", "b<a>\n"),
        (r"()=red", "ba\n", "ba\n"),
        (r"(x)|=red", "axx\n", "a<xx>\n"),
    ] {
        assert_eq!(highlighted(&[rule], line), coloured, "{rule}");
    }
}

#[test]
fn a_later_rule_overrides_an_earlier_one() {
    assert_eq!(highlighted(&["abc=red", "b=blue"], "abc\n"), "<a>(b)<c>\n");
    assert_eq!(highlighted(&["b=blue", "abc=red"], "abc\n"), "<abc>\n");
    assert_eq!(highlighted(&["ab=red", "bc=blue"], "abc\n"), "<a>(bc)\n");
    let error = "x ERROR y\n";
    assert_eq!(
        highlighted(&["ERR=red", "log", "OR=blue"], error).find("<ERR>(OR)"),
        Some(2)
    );
}

#[test]
fn the_end_of_a_line_is_no_part_of_it() {
    for (line, coloured) in [
        ("ab\n", "a<b>\n"),
        ("ab\r\n", "a<b>\r\n"),
        ("ab", "a<b>"),
        ("ab\rb", "ab\r<b>"),
        ("\r\n", "\r\n"),
        ("\n", "\n"),
        ("", ""),
    ] {
        assert_eq!(highlighted(&["b$=red"], line), coloured, "{line:?}");
    }
    assert_eq!(highlighted(&[r"(?s).*\s*=red"], "a\r\n"), "<a>\r\n");
    assert_eq!(highlighted(&[r"\r=red"], "a\r\r\n"), "a<\r>\r\n");
    assert_eq!(highlighted(&[r"\r=red"], "a\r"), "a<\r>");
}

#[test]
fn no_style_of_a_line_stays_for_the_next() {
    let mut highlighter = Highlighter::new().rule("b+=red".as_ref()).unwrap();
    let mut out = Vec::new();
    for line in ["abbb\n", "b\n", "\n", "aaab\n"] {
        highlighter.push(line.as_bytes(), unformatted, &mut out);
    }
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "a\x1b[31mbbb\x1b[0m\n\x1b[31mb\x1b[0m\n\naaa\x1b[31mb\x1b[0m\n"
    );
}

#[test]
fn bytes_that_are_no_text_are_matched_and_kept() {
    let mut out = Vec::new();
    let mut highlighter = Highlighter::new()
        .rule(r"(?-u:\xff)|a.=red".as_ref())
        .unwrap();
    highlighter.push(b"\x80\xffa\xfe ab\n", unformatted, &mut out);
    assert_eq!(out, b"\x80\x1b[31m\xff\x1b[0ma\xfe \x1b[31mab\x1b[0m\n");
}

#[test]
fn an_invalid_rule_is_named() {
    for (rule, begin, quoted, end) in [
        (
            &b"red"[..],
            "invalid highlight: ",
            &b"red"[..],
            ": neither PATTERN=STYLE nor log",
        ),
        (b"a=b=", "invalid style: ", b"", ""),
        (b"a=rde", "invalid style: ", b"rde", ""),
        (b"a(=red", "invalid pattern: ", b"a(", ""),
        (
            b"a\xff=red",
            "invalid pattern: ",
            b"a\xff=red",
            ": not UTF-8",
        ),
    ] {
        let error = Highlighter::new()
            .spec(OsStr::from_bytes(rule))
            .unwrap_err();
        let quoted = quote::argument(OsStr::from_bytes(quoted));
        assert_eq!(error.to_string(), format!("{begin}{quoted}{end}"));
    }
}

const PATTERNS: &[&str] = &[
    "a",
    "b+",
    "[a-c]+",
    "a(b)|(c)",
    "^.",
    ".$",
    r"\w+",
    "",
    "x*",
    "(?-u:[\\x80-\\xff]+)",
    r"\x1b\[",
    r"\x1b\[[0-9;]*m",
    "m",
    "(a)?(?:b|m)",
    ".",
    r"\d(\d)",
    r"(?s-u)^.(.*).$",
];

const STYLES: &[&str] = &["red", "bold,blue", "on-#102030", "7"];

proptest! {
    #[test]
    fn only_escape_sequences_are_inserted(
        rules in vec((0..PATTERNS.len(), 0..STYLES.len()), 0..4),
        pieces in vec(prop_oneof![
            "[abcm01 ]{0,8}".prop_map(String::into_bytes),
            vec(any::<u8>(), 0..4),
            Just(b"\x1b[31m".to_vec()),
            Just(b"\x1b[0m".to_vec()),
        ], 0..10),
        end in prop_oneof![Just(&b"\n"[..]), Just(&b"\r\n"[..]), Just(&b""[..])],
    ) {
        let mut content = pieces.concat();
        content.retain(|byte| *byte != b'\n');
        if end.is_empty() {
            content.retain(|byte| *byte != b'\r');
        }
        let line = [&content, end].concat();
        let mut highlighter = Highlighter::new();
        // The last rule that matches, for each byte.
        let mut owners: Vec<Option<usize>> = vec![None; line.len()];
        for (at, (pattern, style)) in rules.iter().enumerate() {
            let rule = format!("{}={}", PATTERNS[*pattern], STYLES[*style]);
            highlighter = highlighter.rule(rule.as_ref()).unwrap();
            let regex = Regex::new(PATTERNS[*pattern]).unwrap();
            for found in regex.captures_iter(&content) {
                let groups = usize::from(regex.captures_len() > 1);
                for group in found.iter().skip(groups).flatten() {
                    owners[group.range()].fill(Some(at));
                }
            }
        }
        let mut out = Vec::new();
        highlighter.push(&line, unformatted, &mut out);
        // The expected sequences are between the bytes, and nothing else.
        let mut rest = out.as_slice();
        let mut before = None;
        for (at, owner) in owners.iter().copied().chain([None]).enumerate() {
            if owner != before {
                let mut codes = Vec::new();
                if before.is_some() {
                    codes.extend(b"\x1b[0m");
                }
                if let Some(owner) = owner {
                    let style: Style = STYLES[rules[owner].1].parse().unwrap();
                    let mut around = Vec::new();
                    style.push(b"", &mut around);
                    codes.extend(&around[..around.len() - 4]);
                }
                let stripped = rest.strip_prefix(codes.as_slice());
                prop_assert!(stripped.is_some(), "{at}: {} in {}", codes.escape_ascii(), out.escape_ascii());
                rest = stripped.unwrap();
            }
            before = owner;
            if let Some(byte) = line.get(at) {
                prop_assert_eq!(rest.first(), Some(byte), "{} in {}", at, out.escape_ascii());
                rest = &rest[1..];
            }
        }
        prop_assert!(rest.is_empty());
    }
}
