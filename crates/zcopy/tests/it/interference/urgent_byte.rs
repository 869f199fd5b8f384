//! A peer that sends an urgent byte over TCP: a splice of the socket answers 0 at its mark, and
//! more follows.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_oobinline;
use rustix::net::{SendFlags, SocketType, send};
use zcopy::{Ended, FilterTransfer, Strategy, Transfer};

use crate::concurrency::bounded;
use crate::endpoints::{null, pipe, tcp, unix};
use crate::files::{assert_same, contents, file, pattern, read_to_end, write_all};
use crate::refused::is_allowed;

/// Whether the urgent byte is among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgent {
    Apart,
    Inline,
}

/// Where the bytes go.
#[derive(Clone, Copy, Debug)]
enum To {
    File,
    Pipe,
    Tcp,
    UnixStream,
    Null,
}

impl To {
    const ALL: [Self; 5] = [
        Self::File,
        Self::Pipe,
        Self::Tcp,
        Self::UnixStream,
        Self::Null,
    ];
}

/// How they go there.
#[derive(Clone, Copy, Debug)]
enum How {
    Plain,
    By(Strategy),
    Ticking,
    FanOut,
    TickingFanOut,
    FilterTransfer,
}

impl How {
    fn is_allowed(self) -> bool {
        match self {
            Self::By(strategy) => is_allowed(strategy),
            _ => true,
        }
    }

    /// Returns how many bytes arrived.
    fn run(self, source: &OwnedFd, sink: &OwnedFd) -> u64 {
        let null = null();
        let transfer = Transfer::new(source, sink);
        let tick = Duration::from_secs(3600);
        let transfer = match self {
            Self::Plain => transfer,
            Self::By(strategy) => transfer.strategy(strategy),
            Self::Ticking => transfer.tick(tick),
            Self::FanOut => transfer.also_to(&null),
            Self::TickingFanOut => transfer.also_to(&null).tick(tick),
            Self::FilterTransfer => {
                let mut filter = FilterTransfer::new(sink, super::identity);
                let bytes = filter.run(source).unwrap().bytes();
                return bytes + filter.finish().unwrap().bytes();
            }
        };
        let report = transfer.run().unwrap();
        assert_eq!(report.ended(), Ended::Eof);
        report.bytes()
    }
}

/// Sends bytes, an urgent byte, and more bytes.
fn send_urgently(peer: OwnedFd, (before, after): (Vec<u8>, Vec<u8>)) {
    thread::spawn(move || {
        assert!(write_all(&peer, &before));
        assert_eq!(send(&peer, b"!", SendFlags::OOB), Ok(1));
        assert!(write_all(&peer, &after));
    });
}

fn send_through(how: How, to: To, urgent: Urgent, lens: (usize, usize)) {
    let bytes = pattern(lens.0 + lens.1);
    let (before, after) = bytes.split_at(lens.0);
    let (peer, source) = tcp();
    set_socket_oobinline(&source, urgent == Urgent::Inline).unwrap();
    let mark: &[u8] = match urgent {
        Urgent::Apart => b"",
        Urgent::Inline => b"!",
    };
    let expected = [before, mark, after].concat();
    send_urgently(peer, (before.to_vec(), after.to_vec()));

    let case = format!("{how:?} to {to:?}, {urgent:?}, {lens:?}");
    let sink_file = file(b"");
    let (reader, sink): (Option<OwnedFd>, OwnedFd) = match to {
        To::File => (None, sink_file.try_clone().unwrap().into()),
        To::Null => {
            let null = null();
            (None, null)
        }
        To::Pipe => some_reader(pipe()),
        To::Tcp => some_reader(tcp()),
        To::UnixStream => some_reader(unix(SocketType::STREAM)),
    };
    let reading = reader.map(|reader| thread::spawn(move || read_to_end(&reader)));
    let bytes = how.run(&source, &sink);
    assert_eq!(bytes, expected.len() as u64, "{case}");
    drop(sink);
    match (reading, to) {
        (Some(reading), _) => assert_same(&reading.join().unwrap(), &expected, &case),
        (None, To::File) => assert_same(&contents(&sink_file), &expected, &case),
        (None, _) => {}
    }
}

fn some_reader((reader, writer): (OwnedFd, OwnedFd)) -> (Option<OwnedFd>, OwnedFd) {
    (Some(reader), writer)
}

fn urgent_byte(hows: &'static [How], tos: &'static [To]) {
    bounded(move || {
        for how in hows.iter().filter(|how| how.is_allowed()) {
            for to in tos {
                for urgent in [Urgent::Apart, Urgent::Inline] {
                    for lens in [(1 << 20, 1 << 20), (100, 100), (0, 500_000), (500_000, 0)] {
                        send_through(*how, *to, urgent, lens);
                    }
                }
            }
        }
    });
}

#[test]
fn an_urgent_byte_does_not_end_a_transfer() {
    urgent_byte(&[How::Plain], &To::ALL);
}

#[test]
fn an_urgent_byte_does_not_end_a_transfer_with_a_tick() {
    urgent_byte(&[How::Ticking], &To::ALL);
}

#[test]
fn an_urgent_byte_does_not_end_a_transfer_to_several_sinks() {
    urgent_byte(&[How::FanOut, How::TickingFanOut], &To::ALL);
}

#[test]
fn an_urgent_byte_does_not_end_a_transfer_by_any_strategy() {
    urgent_byte(&[How::By(Strategy::SplicePipe)], &To::ALL);
    urgent_byte(&[How::By(Strategy::Buffered)], &To::ALL);
    urgent_byte(&[How::By(Strategy::Splice)], &[To::Pipe]);
}

#[test]
fn an_urgent_byte_does_not_end_a_filter() {
    urgent_byte(&[How::FilterTransfer], &[To::File, To::Pipe]);
}

/// The mark is there, and nothing behind it yet: the transfer waits for more.
#[test]
fn a_transfer_waits_behind_an_urgent_byte() {
    bounded(|| {
        for how in [How::Plain, How::Ticking, How::FanOut] {
            for len in [100, 1 << 20] {
                let (peer, source) = tcp();
                let (reader, sink) = pipe();
                let reading = thread::spawn(move || read_to_end(&reader));
                let (tell, told) = std::sync::mpsc::channel();
                let copying = thread::spawn(move || {
                    tell.send(crate::concurrency::Thread::current()).unwrap();
                    how.run(&source, &sink)
                });
                let bytes = pattern(len);
                assert!(write_all(&peer, &bytes));
                assert_eq!(send(&peer, b"!", SendFlags::OOB), Ok(1));
                told.recv().unwrap().until_asleep();
                assert!(write_all(&peer, &bytes));
                drop(peer);
                assert_eq!(copying.join().unwrap(), 2 * len as u64, "{how:?}");
                assert_same(&reading.join().unwrap(), &bytes.repeat(2), "all");
            }
        }
    });
}
