//! Random filters over several sources. Some sinks fail.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::thread;

use rustix::net::SocketType;
use zcopy::{FilterTransfer, Filtered, Input, Remaining};

use super::fuzz;
use crate::endpoints::{pipe, tcp, unix};
use crate::files::{assert_same, contents, file, pattern, read_to_end, write_all};
use crate::random::Random;

/// The number of copies that a filter writes of each byte.
type Copies = [usize; 8];

#[derive(Clone, Copy, Debug)]
enum Kind {
    File,
    Pipe,
    UnixStream,
    Tcp,
}

impl Kind {
    const ALL: [Self; 4] = [Self::File, Self::Pipe, Self::UnixStream, Self::Tcp];

    fn open(self) -> (OwnedFd, OwnedFd) {
        match self {
            Self::File => unreachable!("a file has one end"),
            Self::Pipe => pipe(),
            Self::UnixStream => unix(SocketType::STREAM),
            Self::Tcp => tcp(),
        }
    }
}

#[derive(Debug)]
struct Case {
    sources: Vec<(Kind, usize)>,
    sink: Kind,
    copies: Copies,
    /// The filter consumes at least this many bytes, unless the input ends.
    least: usize,
    /// It consumes at most this many bytes at once.
    most: usize,
    grows_pipes: bool,
    /// The bytes that the reader of the sink takes before it closes, if it does.
    closes_after: Option<usize>,
}

/// The output of a filter for these bytes.
fn filtered(bytes: &[u8], copies: Copies) -> Vec<u8> {
    let mut bytes_out = Vec::new();
    for byte in bytes {
        bytes_out.extend(std::iter::repeat_n(*byte, copies[usize::from(*byte % 8)]));
    }
    bytes_out
}

impl Case {
    fn draw(random: &mut Random) -> Self {
        let len = |random: &mut Random| match random.below(4) {
            0 => random.below_len(100),
            1 | 2 => random.below_len(50_000),
            _ if !random.one_in(10) => random.below_len(200_000),
            // Sometimes long enough to be read ahead.
            _ => random.below_len(1_500_000),
        };
        let mut copies = [1; 8];
        for copies in &mut copies {
            *copies = *random.pick(&[0, 1, 1, 1, 2, 5]);
        }
        let n_sources = 1 + random.below(3);
        let draw = |_| (*random.pick(&Kind::ALL), len(random));
        Self {
            sources: (0..n_sources).map(draw).collect(),
            sink: *random.pick(&Kind::ALL),
            copies,
            least: *random.pick(&[1, 1, 10, 5000, 60_000]),
            most: *random.pick(&[1000, 20_000, 1 << 20]),
            grows_pipes: !random.one_in(3),
            closes_after: random.one_in(4).then(|| random.below_len(300_000)),
        }
    }

    /// Consumes a random number of bytes, and asks for more if there are too few.
    fn filter(&self, input: Input<'_>, output: &mut [u8], random: &mut Random) -> Filtered {
        let is_too_short = input.bytes.len() < self.least && input.remaining == Remaining::More;
        if is_too_short || input.bytes.is_empty() {
            return Filtered::NEED_MORE;
        }
        let most = input.bytes.len().min(self.most);
        let wanted = 1 + random.below_len(most);
        let mut done = Filtered::default();
        for byte in &input.bytes[..wanted] {
            let n = self.copies[usize::from(*byte % 8)];
            if done.produced + n > output.len() {
                break;
            }
            output[done.produced..done.produced + n].fill(*byte);
            done.produced += n;
            done.consumed += 1;
        }
        done
    }

    fn run(&self, random: &mut Random) {
        let case = format!("{self:?}");
        let total = self.sources.iter().map(|(_, len)| len).sum();
        let bytes = pattern(total);
        let expected = filtered(&bytes, self.copies);

        let kept = file(b"");
        let (sink, reading) = match self.sink {
            Kind::File => (OwnedFd::from(kept.try_clone().unwrap()), None),
            kind => {
                let (reader, writer) = kind.open();
                let closes_after = self.closes_after;
                let reading = thread::spawn(move || match closes_after {
                    None => read_to_end(&reader),
                    Some(n) => read_some(&reader, n),
                });
                (writer, Some(reading))
            }
        };
        let random = RefCell::new(random.clone());
        let filter = |input: Input<'_>, output: &mut [u8]| {
            self.filter(input, output, &mut random.borrow_mut())
        };
        let mut filter_transfer = FilterTransfer::new(&sink, filter).grow_pipes(self.grows_pipes);
        let mut rest = &bytes[..];
        let mut n_filtered = 0;
        let mut failed = None;
        for (kind, len) in &self.sources {
            let (piece, later) = rest.split_at(*len);
            rest = later;
            let (source, feeding) = open_source(*kind, piece);
            let done = filter_transfer.run(&source);
            if done.is_err() {
                // Lets the thread that feeds the source finish.
                read_to_end(&source);
            }
            if let Some(feeding) = feeding {
                feeding.join().unwrap();
            }
            match done {
                Ok(report) => n_filtered += report.bytes(),
                Err(error) => {
                    n_filtered += error.bytes();
                    failed = Some(error);
                    break;
                }
            }
        }
        if failed.is_none() {
            match filter_transfer.finish() {
                Ok(report) => n_filtered += report.bytes(),
                Err(error) => {
                    n_filtered += error.bytes();
                    failed = Some(error);
                }
            }
        }
        drop(filter_transfer);
        drop(sink);
        let n_filtered = usize::try_from(n_filtered).unwrap();
        match &failed {
            None => assert_eq!(n_filtered, expected.len(), "{case}"),
            Some(error) => {
                assert!(self.closes_after.is_some(), "{case}: {error:#}");
                let all = [&expected[..n_filtered], error.undelivered()].concat();
                assert!(expected.starts_with(&all), "{case}: undelivered bytes");
            }
        }
        let Some(reading) = reading else {
            assert_same(&contents(&kept), &expected[..n_filtered], &case);
            return;
        };
        let read = reading.join().unwrap();
        let expected_len = if self.closes_after.is_none() {
            n_filtered
        } else {
            read.len()
        };
        assert_same(&read, &expected[..expected_len], &case);
        assert!(read.len() <= n_filtered, "{case}");
    }
}

fn read_some(reader: &OwnedFd, n: usize) -> Vec<u8> {
    let mut read = vec![0; n];
    let mut len = 0;
    while len < n {
        match rustix::io::read(reader, &mut read[len..]).unwrap() {
            0 => break,
            n => len += n,
        }
    }
    read.truncate(len);
    read
}

fn open_source(kind: Kind, bytes: &[u8]) -> (OwnedFd, Option<thread::JoinHandle<bool>>) {
    if matches!(kind, Kind::File) {
        let file: File = file(bytes);
        return (file.into(), None);
    }
    let (source, feed) = kind.open();
    let bytes = bytes.to_vec();
    let feeding = thread::spawn(move || write_all(&feed, &bytes));
    (source, Some(feeding))
}

#[test]
fn filters() {
    fuzz("filters::filters", 150, |random| {
        let case = Case::draw(random);
        case.run(random);
    });
}
