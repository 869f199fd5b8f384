use std::time::{Duration, Instant};

use jiff::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::cat::stamp::Zone;

/// As it is.
struct Plain;

impl LineFormat for Plain {
    fn line(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        out.extend_from_slice(bytes);
        Some(0)
    }
}

/// With a number in front, and without every line that is empty.
#[derive(Default)]
struct Numbered {
    number: usize,
    is_within: bool,
}

impl LineFormat for Numbered {
    fn line(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let was_within = mem::replace(&mut self.is_within, !bytes.ends_with(b"\n"));
        let before = out.len();
        if !was_within {
            if bytes == b"\n" {
                return None;
            }
            self.number += 1;
            out.extend_from_slice(format!("{}\t", self.number).as_bytes());
        }
        let number = out.len() - before;
        out.extend_from_slice(bytes);
        Some(number)
    }
}

/// Each byte four times.
struct Fourfold;

impl LineFormat for Fourfold {
    fn line(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        out.extend(bytes.iter().flat_map(|byte| [*byte; 4]));
        Some(0)
    }
}

/// What a driver does: it shows what was not taken again, and reads on when nothing more is made of it.
struct Driver<R> {
    rewriter: R,
    held: Vec<u8>,
    capacity: usize,
    room: Vec<u8>,
    out: Vec<u8>,
}

impl<R: Rewriter> Driver<R> {
    fn new(rewriter: R, capacity: usize, room: usize) -> Self {
        Self {
            rewriter,
            held: Vec::new(),
            capacity,
            room: vec![0; room],
            out: Vec::new(),
        }
    }

    fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let n = bytes.len().min(self.capacity - self.held.len());
            assert_ne!(n, 0, "nothing is taken of a full buffer");
            self.held.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            self.pump(None);
        }
    }

    fn pump(&mut self, last: Option<Rest>) {
        while !self.held.is_empty() {
            let rest = if self.held.len() == self.capacity {
                Rest::Full
            } else {
                Rest::Open
            };
            let input = Input {
                bytes: &self.held,
                rest: last.unwrap_or(rest),
            };
            self.room.fill(b'?');
            let rewritten = self.rewriter.rewrite(input, &mut self.room);
            if rewritten == Rewritten::NOTHING {
                break;
            }
            self.out.extend_from_slice(&self.room[..rewritten.made]);
            self.held.drain(..rewritten.taken);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.pump(Some(Rest::Last));
        assert!(self.held.is_empty(), "the last bytes have to be taken");
        let nothing = Input {
            bytes: b"",
            rest: Rest::Last,
        };
        assert_eq!(
            self.rewriter.rewrite(nothing, &mut self.room),
            Rewritten::NOTHING
        );
        self.out
    }
}

/// A clock that is a second on at each look.
fn ticking() -> impl FnMut() -> Moment {
    let begin = Instant::now();
    let mut looks = 0;
    move || {
        looks += 1;
        let passed = Duration::from_secs(looks);
        Moment {
            time: Timestamp::UNIX_EPOCH + passed,
            instant: begin + passed,
        }
    }
}

fn stamp() -> Stamp<impl FnMut() -> Moment> {
    let stamp = Stamp::new().time("%s".as_ref(), Zone::Utc).unwrap();
    stamp.clock(ticking())
}

fn run(rewriter: impl Rewriter, reads: &[&[u8]]) -> String {
    let mut driver = Driver::new(rewriter, 1 << 16, 1 << 16);
    for read in reads {
        driver.read(read);
    }
    String::from_utf8(driver.finish()).unwrap()
}

#[test]
fn a_line_waits_for_its_end() {
    let mut driver = Driver::new(Lines::new(Plain), 1 << 16, 1 << 16);
    driver.read(b"one\ntw");
    assert_eq!(driver.out, b"one\n");
    driver.read(b"o");
    assert_eq!(driver.out, b"one\n");
    driver.read(b"\nthree");
    assert_eq!(driver.out, b"one\ntwo\n");
    assert_eq!(driver.finish(), b"one\ntwo\nthree");
}

#[test]
fn what_waits_for_its_end_is_searched_once() {
    let mut lines = Lines::new(Plain);
    let mut room = vec![0; 1 << 16];
    let mut look = |lines: &mut Lines<Plain>, bytes: &[u8]| {
        let rest = Rest::Open;
        lines.rewrite(Input { bytes, rest }, &mut room)
    };
    look(&mut lines, b"one\ntwo");
    assert_eq!(lines.searched, 3);
    look(&mut lines, b"twothree");
    assert_eq!(lines.searched, 8);
    // A newline where there was none: it would be found if the bytes were searched again.
    let rewritten = look(&mut lines, b"two\nthree\n");
    assert_eq!(rewritten.taken, 10);
    assert_eq!(lines.searched, 0);
}

#[test]
fn a_line_bears_the_time_when_its_end_was_read() {
    let lines = Lines::new(Plain).stamp(Some(stamp()));
    let reads: &[&[u8]] = &[b"a\nb\nc", b"c", b"c\nd\n", b"e\nf", b"f"];
    assert_eq!(run(lines, reads), "1 a\n1 b\n3 ccc\n3 d\n4 e\n5 ff");
}

#[test]
fn the_clock_is_looked_at_once_for_what_was_read_at_once() {
    let mut looks = 0;
    let mut tick = ticking();
    let stamp = stamp().clock(|| {
        looks += 1;
        tick()
    });
    let lines = Lines::new(Fourfold).stamp(Some(stamp));
    let text = "x\n".repeat(30_000);
    let shown = run(lines, &[text.as_bytes()]);
    assert_eq!(shown.matches("1 xxxx\n\n\n\n").count(), 30_000);
    assert_eq!(looks, 1, "the room was too small for everything at once");
}

#[test]
fn time_comes_first_then_the_delta_the_number_and_the_content() {
    let lines = Lines::new(Numbered::default())
        .stamp(Some(stamp().delta(true)))
        .paint(Some(Paint::new().rule(r"\S+=red".as_ref()).unwrap()));
    assert_eq!(
        run(lines, &[b"a b\n", b"\n", b"\n\n", b"c\n\nd\n"]),
        "1     0.000000 1\t\x1b[31ma\x1b[0m \x1b[31mb\x1b[0m\n\
         4     3.000000 2\t\x1b[31mc\x1b[0m\n\
         4     0.000000 3\t\x1b[31md\x1b[0m\n"
    );
}

#[test]
fn a_line_too_long_is_stamped_and_numbered_once() {
    let long = "x".repeat(300 << 10) + "\n";
    let lines = Lines::new(Numbered::default()).stamp(Some(stamp()));
    let shown = run(lines, &[b"a\n", long.as_bytes(), b"b\n"]);
    let (head, rest) = shown.split_once("2 2\t").unwrap();
    assert_eq!(head, "1 1\ta\n");
    let rest = rest.strip_prefix(&long).unwrap();
    let (time, rest) = rest.split_once(' ').unwrap();
    assert!((6..9).contains(&time.parse::<i32>().unwrap()), "{time}");
    assert_eq!(rest, "3\tb\n");
}

#[test]
fn a_line_too_long_is_not_torn_within_a_character_or_its_end() {
    for (bytes, piece_len) in [
        (&b"abc"[..], 3),
        (b"abc\r", 3),
        (b"abc\r\r", 4),
        (b"\r", 1),
        ("abcé".as_bytes(), 5),
        (&"abcé".as_bytes()[..4], 3),
        ("ab水".as_bytes(), 5),
        (&"ab水".as_bytes()[..4], 2),
        (&"ab水".as_bytes()[..3], 2),
        ("a🦀".as_bytes(), 5),
        (&"a🦀".as_bytes()[..4], 1),
        (&"🦀".as_bytes()[..3], 3),
        (b"ab\xff", 3),
        (b"ab\x80\x80\x80\x80\x80", 7),
        (b"ab\xc3\x80\x80", 5),
    ] {
        assert_eq!(piece(bytes).len(), piece_len, "{bytes:x?}");
    }
}

#[test]
fn what_is_made_of_a_line_may_be_larger_than_the_room() {
    let line = "y".repeat(40_000) + "\n";
    let mut lines = Lines::new(Fourfold);
    let mut room = vec![0; 1 << 16];
    let mut made = Vec::new();
    let mut bytes = line.as_bytes();
    while !bytes.is_empty() {
        let rest = Rest::Open;
        let rewritten = lines.rewrite(Input { bytes, rest }, &mut room);
        made.push(rewritten.made);
        bytes = &bytes[rewritten.taken..];
        assert_eq!(bytes.is_empty(), made.len() == 3, "taken before it is out");
    }
    assert_eq!(made, [65_536, 65_536, 28_932]);
}

#[test]
fn memory_stays_flat_whatever_the_length_of_a_line() {
    let paint = Paint::new().rule(r"\w=#ffffff,on-#ffffff".as_ref());
    let lines = Lines::new(Plain).paint(Some(paint.unwrap()));
    let mut driver = Driver::new(lines, 1 << 16, 1 << 16);
    let mut capacity = 0;
    for n in 0..64 {
        driver.read("x ".repeat(1 << 15).as_bytes());
        driver.out.clear();
        let now = driver.rewriter.made.capacity();
        assert!(n < 2 || now == capacity, "{capacity} became {now}");
        capacity = now;
    }
    assert!(capacity < 64 << 16, "{capacity}");
}

/// Text of lines that end in all ways, with bytes of all kinds.
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

/// Reads that `text` comes in.
fn split(text: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.dedup();
    let reads = cuts.windows(2).map(|cut| text[cut[0]..cut[1]].to_vec());
    reads.collect()
}

/// What is expected of lines that are all short enough, read by read.
fn expected(reads: &[Vec<u8>], is_stamped: bool, has_delta: bool, is_numbered: bool) -> Vec<u8> {
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
        if is_stamped {
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
    fn lines_come_out_as_they_went_in(
        text in text(),
        cuts in vec(any::<prop::sample::Index>(), 0..12),
        room in 1usize..600,
        is_stamped: bool,
        has_delta: bool,
        is_numbered: bool,
    ) {
        let reads = split(&text, &cuts);
        let mut stamp = Stamp::new();
        if is_stamped {
            stamp = stamp.time("%s".as_ref(), Zone::Utc).unwrap();
        }
        let stamp = stamp.delta(has_delta).clock(ticking());
        let format = Either(is_numbered.then(Numbered::default));
        // Large enough that no line is cut.
        let lines = Lines::new(format).stamp(Some(stamp));
        let mut driver = Driver::new(lines, text.len() + 1, room);
        for read in &reads {
            driver.read(read);
        }
        let shown = driver.finish();
        let expected = expected(&reads, is_stamped, has_delta, is_numbered);
        prop_assert_eq!(shown.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn lines_that_are_cut_lose_nothing(
        text in text(),
        cuts in vec(any::<prop::sample::Index>(), 0..12),
        room in 1usize..200,
        capacity in 1usize..100,
    ) {
        let lines = Lines::new(Numbered::default()).stamp(Some(stamp()));
        let mut driver = Driver::new(lines, capacity, room);
        for read in split(&text, &cuts) {
            driver.read(&read);
        }
        let shown = driver.finish();
        let mut shown = shown.as_slice();
        let mut before = 1;
        let lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| *line != b"\n");
        for (number, line) in (1..).zip(lines) {
            let blank = memchr(b' ', shown).unwrap();
            let time: usize = std::str::from_utf8(&shown[..blank]).unwrap().parse().unwrap();
            prop_assert!(time >= before);
            before = time;
            let expected = [format!("{number}\t").as_bytes(), line].concat();
            let rest = shown[blank + 1..].strip_prefix(expected.as_slice());
            prop_assert!(rest.is_some(), "{} in {}", expected.escape_ascii(), shown.escape_ascii());
            shown = rest.unwrap();
        }
        prop_assert!(shown.is_empty());
    }
}

proptest! {
    // Each is of up to 900 KB, through a pattern that is not optimized.
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn long_lines_in_colour_lose_nothing(
        lengths in vec(0usize..300_000, 1..4),
        cuts in vec(any::<prop::sample::Index>(), 0..12),
        room in 65_536usize..70_000,
        capacity in 65_536usize..70_000,
    ) {
        let lines: Vec<_> = lengths.iter().map(|length| "-x水".repeat(length / 5) + "\r\n").collect();
        let text = lines.concat();
        let paint = Paint::new().rule(r"x|\r$=red".as_ref()).unwrap();
        let lines = Lines::new(Plain).paint(Some(paint));
        let mut driver = Driver::new(lines, capacity, room);
        for read in split(text.as_bytes(), &cuts) {
            driver.read(&read);
        }
        let shown = String::from_utf8(driver.finish()).unwrap();
        prop_assert!(shown == text.replace('x', "\x1b[31mx\x1b[0m"));
    }
}
