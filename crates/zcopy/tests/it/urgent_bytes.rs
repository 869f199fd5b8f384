//! Urgent bytes of TCP, and out-of-band bytes of unix sockets, within a stream.
//!
//! `tcp_splice_read` returns 0 at the urgent mark, or `EAGAIN` in non-blocking mode, however many
//! bytes are behind it.

use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_oobinline;
use rustix::net::{SendFlags, SocketType, send};
use zcopy::{Ended, Report, Strategy, Transfer};

use crate::endpoints::{Sink, SinkKind, pipe, tcp, unix};
use crate::files::{assert_same, contents, file, pattern, read_to_end, write_all};
use crate::options::Runs;
use crate::refused::{allowed, first_allowed, is_allowed, needs};
use crate::skip::report;
use crate::strategies::moved_by;

const MIB: usize = 1 << 20;

/// Starts a thread that sends these parts with one urgent byte between any two, and closes the
/// peer.
fn send_parts(peer: OwnedFd, parts: Vec<Vec<u8>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for (nth, part) in parts.iter().enumerate() {
            if nth > 0 {
                assert_eq!(send(&peer, b"!", SendFlags::OOB), Ok(1));
            }
            assert!(write_all(&peer, part));
        }
    })
}

/// Whether unix sockets have out-of-band bytes, which they do since Linux 5.15. Reports if not.
fn unix_sockets_have_urgent_bytes() -> bool {
    let (_source, peer) = unix(SocketType::STREAM);
    let have = send(&peer, b"!", SendFlags::OOB) != Err(Errno::OPNOTSUPP);
    if !have {
        report("unix sockets of this kernel have no out-of-band bytes");
    }
    have
}

/// The bytes that a reader gets.
fn expected_bytes(parts: &[Vec<u8>], inline: bool) -> Vec<u8> {
    let between: &[u8] = if inline { b"!" } else { b"" };
    parts.join(between)
}

/// The mode of a socket, and whether it delivers urgent bytes in line (`SO_OOBINLINE`).
#[derive(Clone, Copy, Debug)]
struct Mode {
    flags: OFlags,
    tick: Option<Duration>,
    inline: bool,
}

/// Calls a function with every mode.
fn each_mode(mut each: impl FnMut(Mode)) {
    for flags in [OFlags::empty(), OFlags::NONBLOCK] {
        for tick in [None, Some(Duration::from_secs(3600))] {
            for inline in [false, true] {
                each(Mode {
                    flags,
                    tick,
                    inline,
                });
            }
        }
    }
}

impl Mode {
    fn set(self, source: &OwnedFd) {
        set_socket_oobinline(source, self.inline).unwrap();
        rustix::fs::fcntl_setfl(source, self.flags).unwrap();
    }

    /// Runs a transfer in this mode to the end of its source.
    fn run(self, transfer: impl Runs, strategy: Option<Strategy>, what: &str) -> Report {
        let report = transfer
            .maybe_strategy(strategy)
            .maybe_tick(self.tick)
            .run();
        let report = report.unwrap_or_else(|error| panic!("{what}: {error:#}"));
        assert_eq!(report.ended(), Ended::Eof, "{what}");
        report
    }
}

#[test]
fn an_urgent_byte_does_not_end_a_transfer() {
    let parts = || vec![pattern(MIB), pattern(MIB)];
    each_mode(|mode| {
        for (strategy, to) in [
            (None, SinkKind::Memfd),
            (None, SinkKind::Pipe),
            (Some(Strategy::SplicePipe), SinkKind::Memfd),
            (Some(Strategy::SplicePipe), SinkKind::Tcp),
            (Some(Strategy::Splice), SinkKind::Pipe),
            (Some(Strategy::Buffered), SinkKind::Memfd),
        ]
        .into_iter()
        .filter(|(strategy, _)| is_allowed(*strategy))
        {
            for is_unix in [false, true] {
                if is_unix && !unix_sockets_have_urgent_bytes() {
                    continue;
                }
                let what = format!("{mode:?}, {strategy:?}, {to:?}, {is_unix}");
                let (source, peer) = if is_unix {
                    unix(SocketType::STREAM)
                } else {
                    tcp()
                };
                mode.set(&source);
                let sink = Sink::new(to).unwrap();
                let peer = send_parts(peer, parts());
                let report = mode.run(Transfer::new(&source, &sink.fd), strategy, &what);
                peer.join().unwrap();
                let expected = expected_bytes(&parts(), mode.inline);
                assert_same(&sink.into_bytes(report.bytes()).unwrap(), &expected, &what);
                assert_eq!(report.bytes(), expected.len() as u64, "{what}");
                // One read passes the mark, and splices follow.
                if let Some(strategy) = strategy.filter(|strategy| *strategy != Strategy::Buffered)
                {
                    let by_reading = moved_by(&report, Strategy::Buffered);
                    assert!(by_reading <= 256 << 10, "{what}: {report:#}");
                    assert_eq!(report.strategy(), Some(strategy), "{what}: {report:#}");
                }
            }
        }
    });
}

#[test]
fn an_urgent_byte_does_not_end_a_fan_out() {
    let parts = || vec![pattern(MIB), pattern(MIB)];
    each_mode(|mode| {
        for requested in allowed([None, Some(Strategy::Tee), Some(Strategy::Buffered)]) {
            let what = format!("{mode:?}, {requested:?}");
            let (source, peer) = tcp();
            mode.set(&source);
            let (sink, log) = (Sink::new(SinkKind::Pipe).unwrap(), file(b""));
            let peer = send_parts(peer, parts());
            let transfer = Transfer::new(&source, &sink.fd).also_to(&log);
            let report = mode.run(transfer, requested, &what);
            peer.join().unwrap();
            let expected = expected_bytes(&parts(), mode.inline);
            assert_eq!(report.bytes(), expected.len() as u64, "{what}");
            assert_same(&sink.into_bytes(0).unwrap(), &expected, &what);
            assert_same(&contents(&log), &expected, &what);
            let expected = requested.unwrap_or(first_allowed(&[Strategy::Tee]));
            assert_eq!(report.strategy(), Some(expected), "{what}: {report:#}");
            let by_writing = moved_by(&report, Strategy::Buffered);
            // Few bytes at once are written, as before the urgent byte: a warm-up of 128 KiB, whose
            // last read fills a buffer of 256 KiB.
            let is_spliced = by_writing <= 384 << 10 || expected == Strategy::Buffered;
            assert!(is_spliced, "{what}: {report:#}");
        }
    });
}

/// The urgent byte comes first or last, or there are several. All bytes are in the socket before
/// the transfer begins.
#[test]
fn urgent_bytes_anywhere_in_a_short_stream_are_passed() {
    if !needs(&[Strategy::Splice]) {
        return;
    }
    let parts: [&[&[u8]]; 5] = [
        &[b"", b"two"],
        &[b"one", b""],
        &[b"", b""],
        &[b"one", b"two", b"three"],
        &[b"one", b"", b"three"],
    ];
    for parts in parts {
        each_mode(|mode| {
            for strategy in [Strategy::SplicePipe, Strategy::Splice] {
                let what = format!("{parts:?}, {mode:?}, {strategy:?}");
                // Compare with read(2): of two urgent bytes, the kernel makes the first an ordinary
                // one.
                let arrived = |by_transfer: bool| {
                    let (source, peer) = tcp();
                    mode.set(&source);
                    let parts = parts.iter().map(|part| part.to_vec());
                    send_parts(peer, parts.collect()).join().unwrap();
                    if !by_transfer {
                        rustix::fs::fcntl_setfl(&source, OFlags::empty()).unwrap();
                        return read_to_end(&source);
                    }
                    let (reader, sink) = pipe();
                    mode.run(Transfer::new(&source, &sink), Some(strategy), &what);
                    drop(sink);
                    read_to_end(&reader)
                };
                assert_eq!(arrived(true), arrived(false), "{what}");
            }
        });
    }
}
