use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::*;
use crate::cat::timestamp::Zone;

mod random;

/// Changes nothing.
struct Plain;

impl LineFormat for Plain {
    fn line(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        out.extend_from_slice(bytes);
        Some(0)
    }
}

/// Numbers lines, and squeezes every empty one.
#[derive(Default)]
struct Numbered {
    number: usize,
    is_within_line: bool,
}

impl LineFormat for Numbered {
    fn line(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let was_within_line = mem::replace(&mut self.is_within_line, !bytes.ends_with(b"\n"));
        let before = out.len();
        if !was_within_line {
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

/// Repeats each byte four times.
struct Fourfold;

impl LineFormat for Fourfold {
    fn line(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        out.extend(bytes.iter().flat_map(|byte| [*byte; 4]));
        Some(0)
    }
}

/// Drives a filter as the library does: passes unconsumed bytes again, and reads on when the filter
/// needs more.
struct Driver<R> {
    filter: R,
    held: Vec<u8>,
    capacity: usize,
    out_buffer: Vec<u8>,
    out: Vec<u8>,
}

impl<R: Filter> Driver<R> {
    fn new(filter: R, capacity: usize, out_buffer: usize) -> Self {
        Self {
            filter,
            held: Vec::new(),
            capacity,
            out_buffer: vec![0; out_buffer],
            out: Vec::new(),
        }
    }

    fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let n = bytes.len().min(self.capacity - self.held.len());
            assert_ne!(n, 0, "no byte of a full buffer is consumed");
            self.held.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            self.pump(None);
        }
    }

    /// Calls the filter until it needs more. Only then tells it that the buffer is full.
    fn pump(&mut self, last: Option<Remaining>) {
        let mut rest = last.unwrap_or(Remaining::More);
        loop {
            let input = Input::new(&self.held, rest);
            self.out_buffer.fill(b'?');
            let filtered = self.filter.filter(input, &mut self.out_buffer);
            self.out
                .extend_from_slice(&self.out_buffer[..filtered.produced]);
            self.held.drain(..filtered.consumed);
            rest = match filtered {
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
        assert!(self.held.is_empty(), "the last bytes have to be consumed");
        self.out
    }
}

/// A clock that advances by a second at each reading.
fn ticking() -> impl FnMut() -> ClockReading {
    let begin = Instant::now();
    let mut n_readings = 0;
    move || {
        n_readings += 1;
        let passed = Duration::from_secs(n_readings);
        ClockReading {
            time: Timestamp::UNIX_EPOCH + passed,
            instant: begin + passed,
        }
    }
}

fn timestamper() -> Timestamper<impl FnMut() -> ClockReading> {
    let timestamper = Timestamper::new().time("%s".as_ref(), Zone::Utc).unwrap();
    timestamper.clock(ticking())
}

fn run(filter: impl Filter, reads: &[&[u8]]) -> String {
    let mut driver = Driver::new(filter, 1 << 16, 1 << 16);
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
fn an_unfinished_line_is_searched_once() {
    let mut lines = Lines::new(Plain);
    let mut out_buffer = vec![0; 1 << 16];
    let mut filter = |lines: &mut Lines<Plain>, bytes: &[u8]| {
        let rest = Remaining::More;
        lines.filter(Input::new(bytes, rest), &mut out_buffer)
    };
    filter(&mut lines, b"one\ntwo");
    assert_eq!(lines.n_searched, 3);
    filter(&mut lines, b"twothree");
    assert_eq!(lines.n_searched, 8);
    // A second search would find the newline where there was none.
    let filtered = filter(&mut lines, b"two\nthree\n");
    assert_eq!(filtered.consumed, 10);
    assert_eq!(lines.n_searched, 0);
}

#[test]
fn a_line_bears_the_time_when_its_end_was_read() {
    let lines = Lines::new(Plain).timestamper(Some(timestamper()));
    let reads: &[&[u8]] = &[b"a\nb\nc", b"c", b"c\nd\n", b"e\nf", b"f"];
    assert_eq!(run(lines, reads), "1 a\n1 b\n3 ccc\n3 d\n4 e\n5 ff");
}

#[test]
fn the_clock_is_read_once_for_lines_that_were_read_together() {
    let mut n_readings = 0;
    let mut tick = ticking();
    let timestamper = timestamper().clock(|| {
        n_readings += 1;
        tick()
    });
    let lines = Lines::new(Fourfold).timestamper(Some(timestamper));
    let text = "x\n".repeat(30_000);
    let written = run(lines, &[text.as_bytes()]);
    assert_eq!(written.matches("1 xxxx\n\n\n\n").count(), 30_000);
    assert_eq!(n_readings, 1, "the output did not fit into one call");
}

#[test]
fn time_comes_first_then_the_delta_the_number_and_the_content() {
    let lines = Lines::new(Numbered::default())
        .timestamper(Some(timestamper().delta(true)))
        .highlighter(Some(Highlighter::new().rule(r"\S+=red".as_ref()).unwrap()));
    assert_eq!(
        run(lines, &[b"a b\n", b"\n", b"\n\n", b"c\n\nd\n"]),
        "1     0.000000 1\t\x1b[31ma\x1b[0m \x1b[31mb\x1b[0m\n\
         4     3.000000 2\t\x1b[31mc\x1b[0m\n\
         4     0.000000 3\t\x1b[31md\x1b[0m\n"
    );
}

#[test]
fn a_long_line_gets_one_timestamp_and_one_number() {
    let long = "x".repeat(300 << 10) + "\n";
    let lines = Lines::new(Numbered::default()).timestamper(Some(timestamper()));
    let written = run(lines, &[b"a\n", long.as_bytes(), b"b\n"]);
    let (head, rest) = written.split_once("2 2\t").unwrap();
    assert_eq!(head, "1 1\ta\n");
    let rest = rest.strip_prefix(&long).unwrap();
    let (time, rest) = rest.split_once(' ').unwrap();
    assert!((6..9).contains(&time.parse::<i32>().unwrap()), "{time}");
    assert_eq!(rest, "3\tb\n");
}

#[test]
fn a_long_line_is_not_split_within_a_character_or_its_end() {
    for (bytes, part_len) in [
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
        assert_eq!(split_part(bytes).len(), part_len, "{bytes:x?}");
    }
}

#[test]
fn a_formatted_line_may_be_longer_than_the_output_buffer() {
    let line = "y".repeat(40_000) + "\n";
    let mut lines = Lines::new(Fourfold);
    let mut out_buffer = vec![0; 1 << 16];
    let mut produced = Vec::new();
    let mut bytes = line.as_bytes();
    loop {
        let rest = Remaining::More;
        let filtered = lines.filter(Input::new(bytes, rest), &mut out_buffer);
        if filtered == Filtered::NEED_MORE {
            break;
        }
        produced.push(filtered.produced);
        bytes = &bytes[filtered.consumed..];
    }
    assert!(bytes.is_empty());
    assert_eq!(produced, [65_536, 65_536, 28_932]);
}

#[test]
fn memory_stays_flat_whatever_the_length_of_a_line() {
    let highlighter = Highlighter::new().rule(r"\w=#ffffff,on-#ffffff".as_ref());
    let lines = Lines::new(Plain).highlighter(Some(highlighter.unwrap()));
    let mut driver = Driver::new(lines, 1 << 16, 1 << 16);
    let mut capacity = 0;
    for n in 0..64 {
        driver.read("x ".repeat(1 << 15).as_bytes());
        driver.out.clear();
        let now = driver.filter.pending.capacity();
        assert!(n < 2 || now == capacity, "{capacity} became {now}");
        capacity = now;
    }
    assert!(capacity < 64 << 16, "{capacity}");
}

#[test]
fn a_line_allocates_nothing() {
    let highlighter = Highlighter::new().log().rule(r"(\w)=red".as_ref()).unwrap();
    let timestamper = Some(timestamper().delta(true));
    let mut lines = Lines::new(Plain)
        .timestamper(timestamper)
        .highlighter(Some(highlighter));
    let mut out_buffer = vec![0; 1 << 16];
    let mut filter_all = |text: &str| {
        let mut bytes = text.as_bytes();
        while !bytes.is_empty() {
            let rest = Remaining::End;
            bytes = &bytes[lines
                .filter(Input::new(bytes, rest), &mut out_buffer)
                .consumed..];
        }
    };
    let line = "2026-11-21 12:00:00 [error] x=1\n";
    filter_all(&line.repeat(2000));
    // The first line of a reading formats the time, which may allocate.
    let one = allocation_counter::measure(|| filter_all(line)).count_total;
    let many = allocation_counter::measure(|| filter_all(&line.repeat(2000))).count_total;
    assert!(many <= one + 1, "{many} after {one}");
}
