use super::*;

fn all(bytes: impl Read) -> Vec<Result<Vec<u8>, ParseLineError>> {
    let mut lines = Lines::of(bytes);
    std::iter::from_fn(|| lines.next().unwrap()).collect()
}

#[test]
fn comments_and_empty_lines_are_passed_over() {
    let found = all(&b"# one\n\n\r\ntwo\n#\nthree\r\n # four\n\r"[..]);
    let expected = [&b"two\n"[..], b"three\r\n", b" # four\n"];
    assert_eq!(found, expected.map(|line| Ok(line.to_vec())));
}

#[test]
fn the_last_line_needs_no_newline() {
    assert_eq!(
        all(&b"one\ntwo"[..]),
        [Ok(b"one\n".to_vec()), Ok(b"two".to_vec())]
    );
    assert_eq!(all(&b""[..]), []);
}

#[test]
fn a_line_that_is_too_long_is_none_and_the_next_is_one() {
    let longest = vec![b'x'; LONGEST as usize - 1];
    let bytes = [&longest[..], b"\n", &longest, b"xx\n", b"next\n"].concat();
    let whole = [&longest[..], b"\n"].concat();
    let expected = [
        Ok(whole),
        Err(ParseLineError::too_long()),
        Ok(b"next\n".to_vec()),
    ];
    assert_eq!(all(&bytes[..]), expected);
}

#[test]
fn what_has_no_newlines_is_not_held() {
    let endless = io::repeat(b'x').take(1 << 30);
    let mut lines = Lines::of(endless);
    assert_eq!(lines.next().unwrap(), Some(Err(ParseLineError::too_long())));
    assert_eq!(lines.next().unwrap(), None);
}

#[test]
fn a_byte_order_mark_at_the_start_is_no_part_of_the_first_line() {
    for text in [&b"\xef\xbb\xbfa\nb\n"[..], b"\xef\xbb\xbf# comment\na\nb\n"] {
        let mut lines = Lines::of(text);
        let mut next = || lines.next().unwrap().map(Result::unwrap);
        assert_eq!(next(), Some(b"a\n".to_vec()));
        assert_eq!(next(), Some(b"b\n".to_vec()));
        assert_eq!(next(), None);
    }
    let mut lines = Lines::of(&b"\xef\xbb\xbf"[..]);
    assert!(lines.next().unwrap().is_none());
}
