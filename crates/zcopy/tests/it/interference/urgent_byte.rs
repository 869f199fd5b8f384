//! A peer that sends an urgent byte over TCP: a splice of the socket returns 0 at the urgent mark,
//! and more bytes follow.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_oobinline;
use rustix::net::{SendFlags, SocketType, send};
use zcopy::{Ended, FilterTransfer, Strategy, Transfer};

use crate::concurrency::bounded;
use crate::endpoints::{null, pipe, tcp, unix};
use crate::files::{assert_same, contents, file, pattern, read_to_end, write_all};
use crate::options::run_also_to;
use crate::refused::is_allowed;

/// The place of the urgent byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgent {
    /// Outside the stream: only `MSG_OOB` reads it.
    Apart,
    /// Among the other bytes (`SO_OOBINLINE`).
    Inline,
}

/// The kind of sink.
#[derive(Clone, Copy, Debug)]
enum SinkType {
    File,
    Pipe,
    Tcp,
    UnixStream,
    Null,
}

impl SinkType {
    const ALL: [Self; 5] = [
        Self::File,
        Self::Pipe,
        Self::Tcp,
        Self::UnixStream,
        Self::Null,
    ];
}

/// The kind of transfer.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    By(Strategy),
    Ticking,
    FanOut,
    TickingFanOut,
    FilterTransfer,
}

impl Kind {
    fn is_allowed(self) -> bool {
        match self {
            Self::By(strategy) => is_allowed(strategy),
            _ => true,
        }
    }

    /// Runs the transfer and returns the number of bytes that arrived.
    fn run(self, source: &OwnedFd, sink: &OwnedFd) -> u64 {
        let null = null();
        let transfer = Transfer::new(source, sink);
        let tick = Duration::from_secs(3600);
        let transfer = match self {
            Self::Plain | Self::FanOut => transfer,
            Self::By(strategy) => transfer.strategy(strategy),
            Self::Ticking | Self::TickingFanOut => transfer.tick(tick),
            Self::FilterTransfer => {
                let mut filter = FilterTransfer::new(sink, super::identity);
                let bytes = filter.run(source).unwrap().bytes();
                return bytes + filter.finish().unwrap().bytes();
            }
        };
        let to_two = matches!(self, Self::FanOut | Self::TickingFanOut);
        let report = run_also_to(transfer, to_two.then_some(&null)).unwrap();
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

fn send_through(kind: Kind, to: SinkType, urgent: Urgent, lengths: (usize, usize)) {
    let bytes = pattern(lengths.0 + lengths.1);
    let (before, after) = bytes.split_at(lengths.0);
    let (peer, source) = tcp();
    set_socket_oobinline(&source, urgent == Urgent::Inline).unwrap();
    let mark: &[u8] = match urgent {
        Urgent::Apart => b"",
        Urgent::Inline => b"!",
    };
    let expected = [before, mark, after].concat();
    send_urgently(peer, (before.to_vec(), after.to_vec()));

    let case = format!("{kind:?} to {to:?}, {urgent:?}, {lengths:?}");
    let sink_file = file(b"");
    let (reader, sink): (Option<OwnedFd>, OwnedFd) = match to {
        SinkType::File => (None, sink_file.try_clone().unwrap().into()),
        SinkType::Null => {
            let null = null();
            (None, null)
        }
        SinkType::Pipe => some_reader(pipe()),
        SinkType::Tcp => some_reader(tcp()),
        SinkType::UnixStream => some_reader(unix(SocketType::STREAM)),
    };
    let reading = reader.map(|reader| thread::spawn(move || read_to_end(&reader)));
    let bytes = kind.run(&source, &sink);
    assert_eq!(bytes, expected.len() as u64, "{case}");
    drop(sink);
    match (reading, to) {
        (Some(reading), _) => assert_same(&reading.join().unwrap(), &expected, &case),
        (None, SinkType::File) => assert_same(&contents(&sink_file), &expected, &case),
        (None, _) => {}
    }
}

fn some_reader((reader, writer): (OwnedFd, OwnedFd)) -> (Option<OwnedFd>, OwnedFd) {
    (Some(reader), writer)
}

fn assert_urgent_byte_passes(kinds: &'static [Kind], sink_types: &'static [SinkType]) {
    bounded(move || {
        for kind in kinds.iter().filter(|kind| kind.is_allowed()) {
            for to in sink_types {
                for urgent in [Urgent::Apart, Urgent::Inline] {
                    for lengths in [(1 << 20, 1 << 20), (100, 100), (0, 500_000), (500_000, 0)] {
                        send_through(*kind, *to, urgent, lengths);
                    }
                }
            }
        }
    });
}

#[test]
fn an_urgent_byte_does_not_end_a_transfer() {
    assert_urgent_byte_passes(&[Kind::Plain], &SinkType::ALL);
}

#[test]
fn an_urgent_byte_does_not_end_a_transfer_with_a_tick() {
    assert_urgent_byte_passes(&[Kind::Ticking], &SinkType::ALL);
}

#[test]
fn an_urgent_byte_does_not_end_a_transfer_to_several_sinks() {
    assert_urgent_byte_passes(&[Kind::FanOut, Kind::TickingFanOut], &SinkType::ALL);
}

#[test]
fn an_urgent_byte_does_not_end_a_transfer_by_any_strategy() {
    assert_urgent_byte_passes(&[Kind::By(Strategy::SplicePipe)], &SinkType::ALL);
    assert_urgent_byte_passes(&[Kind::By(Strategy::Buffered)], &SinkType::ALL);
    assert_urgent_byte_passes(&[Kind::By(Strategy::Splice)], &[SinkType::Pipe]);
}

#[test]
fn an_urgent_byte_does_not_end_a_filter() {
    assert_urgent_byte_passes(&[Kind::FilterTransfer], &[SinkType::File, SinkType::Pipe]);
}

/// The source ends at the mark for a while: the transfer waits for more.
#[test]
fn a_transfer_waits_behind_an_urgent_byte() {
    bounded(|| {
        for kind in [Kind::Plain, Kind::Ticking, Kind::FanOut] {
            for len in [100, 1 << 20] {
                let (peer, source) = tcp();
                let (reader, sink) = pipe();
                let reading = thread::spawn(move || read_to_end(&reader));
                let (tell, told) = std::sync::mpsc::channel();
                let copying = thread::spawn(move || {
                    tell.send(crate::concurrency::Thread::current()).unwrap();
                    kind.run(&source, &sink)
                });
                let bytes = pattern(len);
                assert!(write_all(&peer, &bytes));
                assert_eq!(send(&peer, b"!", SendFlags::OOB), Ok(1));
                told.recv().unwrap().until_asleep();
                assert!(write_all(&peer, &bytes));
                drop(peer);
                assert_eq!(copying.join().unwrap(), 2 * len as u64, "{kind:?}");
                assert_same(&reading.join().unwrap(), &bytes.repeat(2), "all");
            }
        }
    });
}
