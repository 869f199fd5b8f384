//! Random lines, in random reads, through output buffers of random sizes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Lines with all kinds of bytes and ends.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"\n".to_vec()),
        1 => Just(b"\r\n".to_vec()),
        1 => Just("é水🦀".as_bytes().to_vec()),
        1 => Just(b"\x1b[1mERROR\x1b[m".to_vec()),
        2 => vec(any::<u8>(), 0..6),
        3 => "[a-z ]{0,20}".prop_map(String::into_bytes),
        1 => (0usize..300).prop_map(|n| vec![b'l'; n]),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Splits `text` into reads.
fn split(text: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.dedup();
    let reads = cuts.windows(2).map(|cut| text[cut[0]..cut[1]].to_vec());
    reads.collect()
}

/// Returns the expected output, if no line is too long.
fn expected(reads: &[Vec<u8>], has_time: bool, has_delta: bool, is_numbered: bool) -> Vec<u8> {
    let text = reads.concat();
    let mut ends = Vec::new();
    for (at, read) in reads.iter().enumerate() {
        ends.extend(std::iter::repeat_n(at + 1, read.len()));
    }
    let (mut out, mut at, mut number, mut before) = (Vec::new(), 0, 0, None);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        at += line.len();
        if is_numbered && line == b"\n" {
            continue;
        }
        let read = ends[at - 1];
        number += 1;
        if has_time {
            out.extend(format!("{read} ").bytes());
        }
        if has_delta {
            let passed = read - before.replace(read).unwrap_or(read);
            out.extend(format!("{passed:>5}.000000 ").bytes());
        }
        if is_numbered {
            out.extend(format!("{number}\t").bytes());
        }
        out.extend(line);
    }
    out
}

/// Both formats.
struct Either(Option<Numbered>);

impl LineFormat for Either {
    fn line(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        match &mut self.0 {
            Some(numbered) => numbered.line(bytes, out),
            None => Plain.line(bytes, out),
        }
    }
}

proptest! {
    #[test]
    fn every_line_comes_out_whole_and_once(
        text in text(),
        cuts in vec(any::<prop::sample::Index>(), 0..12),
        out_len in 1usize..600,
        has_time: bool,
        has_delta: bool,
        is_numbered: bool,
    ) {
        let reads = split(&text, &cuts);
        let mut timestamper = Timestamper::new();
        if has_time {
            timestamper = timestamper.time("%s".as_ref(), Zone::Utc).unwrap();
        }
        let timestamper = timestamper.delta(has_delta).clock(ticking());
        let format = Either(is_numbered.then(Numbered::default));
        // The input buffer is large enough for every line.
        let lines = Lines::new(format).timestamper(Some(timestamper));
        let mut driver = Driver::new(lines, text.len() + 1, out_len);
        for read in &reads {
            driver.read(read);
        }
        let written = driver.finish();
        let expected = expected(&reads, has_time, has_delta, is_numbered);
        prop_assert_eq!(written.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn lines_that_are_split_lose_nothing(
        text in text(),
        cuts in vec(any::<prop::sample::Index>(), 0..12),
        out_len in 1usize..200,
        capacity in 1usize..100,
    ) {
        let lines = Lines::new(Numbered::default()).timestamper(Some(timestamper()));
        let mut driver = Driver::new(lines, capacity, out_len);
        for read in split(&text, &cuts) {
            driver.read(&read);
        }
        let written = driver.finish();
        let mut written = written.as_slice();
        let mut before = 1;
        let lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| *line != b"\n");
        for (number, line) in (1..).zip(lines) {
            let blank = memchr(b' ', written).unwrap();
            let time: usize = std::str::from_utf8(&written[..blank]).unwrap().parse().unwrap();
            prop_assert!(time >= before);
            before = time;
            let expected = [format!("{number}\t").as_bytes(), line].concat();
            let rest = written[blank + 1..].strip_prefix(expected.as_slice());
            prop_assert!(rest.is_some(), "{} in {}", expected.escape_ascii(), written.escape_ascii());
            written = rest.unwrap();
        }
        prop_assert!(written.is_empty());
    }
}

proptest! {
    // Each case is up to 900 KB, and regular expressions are slow without optimization.
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn long_coloured_lines_lose_nothing(
        lengths in vec(0usize..300_000, 1..4),
        cuts in vec(any::<prop::sample::Index>(), 0..12),
        out_len in 65_536usize..70_000,
        capacity in 65_536usize..70_000,
    ) {
        let lines: Vec<_> = lengths.iter().map(|length| "-x水".repeat(length / 5) + "\r\n").collect();
        let text = lines.concat();
        let highlighter = Highlighter::new().rule(r"x|\r$=red".as_ref()).unwrap();
        let lines = Lines::new(Plain).highlighter(Some(highlighter));
        let mut driver = Driver::new(lines, capacity, out_len);
        for read in split(text.as_bytes(), &cuts) {
            driver.read(&read);
        }
        let written = String::from_utf8(driver.finish()).unwrap();
        prop_assert!(written == text.replace('x', "\x1b[31mx\x1b[0m"));
    }
}
