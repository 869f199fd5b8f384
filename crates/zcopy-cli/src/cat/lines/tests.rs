use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::*;
use crate::cat::timestamp::Zone;

mod random;

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

impl<R: Filter> Driver<R> {
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

    /// Asks until it needs more, and tells it that there is no place only after that.
    fn pump(&mut self, last: Option<Remaining>) {
        let mut rest = last.unwrap_or(Remaining::More);
        loop {
            let input = Input::new(&self.held, rest);
            self.room.fill(b'?');
            let rewritten = self.rewriter.filter(input, &mut self.room);
            self.out.extend_from_slice(&self.room[..rewritten.produced]);
            self.held.drain(..rewritten.consumed);
            rest = match rewritten {
                Filtered::NEED_MORE
                    if rest == Remaining::More && self.held.len() == self.capacity =>
                {
                    Remaining::Full
                }
                Filtered::NEED_MORE => break,
                _ => last.unwrap_or(Remaining::More),
            };
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.pump(Some(Remaining::End));
        assert!(self.held.is_empty(), "the last bytes have to be taken");
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

fn run(rewriter: impl Filter, reads: &[&[u8]]) -> String {
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
        let rest = Remaining::More;
        lines.filter(Input::new(bytes, rest), &mut room)
    };
    look(&mut lines, b"one\ntwo");
    assert_eq!(lines.searched, 3);
    look(&mut lines, b"twothree");
    assert_eq!(lines.searched, 8);
    // A newline where there was none: it would be found if the bytes were searched again.
    let rewritten = look(&mut lines, b"two\nthree\n");
    assert_eq!(rewritten.consumed, 10);
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
    loop {
        let rest = Remaining::More;
        let rewritten = lines.filter(Input::new(bytes, rest), &mut room);
        if rewritten == Filtered::NEED_MORE {
            break;
        }
        made.push(rewritten.produced);
        bytes = &bytes[rewritten.consumed..];
    }
    assert!(bytes.is_empty());
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

#[test]
fn a_line_allocates_nothing() {
    let paint = Paint::new().log().rule(r"(\w)=red".as_ref()).unwrap();
    let stamp = Some(stamp().delta(true));
    let mut lines = Lines::new(Plain).stamp(stamp).paint(Some(paint));
    let mut room = vec![0; 1 << 16];
    let mut rewrite = |text: &str| {
        let mut bytes = text.as_bytes();
        while !bytes.is_empty() {
            let rest = Remaining::End;
            bytes = &bytes[lines.filter(Input::new(bytes, rest), &mut room).consumed..];
        }
    };
    let line = "2026-11-21 12:00:00 [error] x=1\n";
    rewrite(&line.repeat(2000));
    // Of these one stamp is made, which may take what it needs.
    let one = allocation_counter::measure(|| rewrite(line)).count_total;
    let many = allocation_counter::measure(|| rewrite(&line.repeat(2000))).count_total;
    assert!(many <= one + 1, "{many} after {one}");
}
