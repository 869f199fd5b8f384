//! Promise 9 for the reader of a pipe that receives what another process wrote as packets: it reads
//! a stream, however short its reads are.
//!
//! A writer may set `O_DIRECT` on its pipe from the start or after any number of bytes, and no
//! other process sees it. `splice(2)` and `tee(2)` keep the flag of each packet.

use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::OFlags;
use zcopy::{FanOut, Report, Strategy, Transfer};

use crate::concurrency::bounded;
use crate::endpoints::{null, pipe};
use crate::files::{appending, assert_same, contents, file, pattern, read_to_end, write_all};
use crate::options::run_also_to;
use crate::refused::{allowed, needs};

/// Shorter than each packet.
const READ: usize = 1000;

/// The number of bytes that each writer writes as packets.
const PACKETS: usize = 300_000;

/// The number of bytes that come as a stream before the packets: none; less than a warm-up; more
/// than the warm-up and a full private pipe; an odd number of bytes, so that the packets begin
/// within a page.
const STREAMS: [usize; 4] = [0, 70_000, 3 << 20, (2 << 20) + 4321];

/// Returns the reader of a pipe, and its writer's thread, which sets `O_DIRECT` behind `n_stream`
/// bytes of `bytes`.
fn writer(bytes: &[u8], n_stream: usize) -> (OwnedFd, JoinHandle<()>) {
    let (reader, writer) = pipe();
    let bytes = bytes.to_vec();
    (
        reader,
        thread::spawn(move || write_then_send(&writer, &bytes, n_stream)),
    )
}

/// Writes `n_stream` bytes as a stream, and the others as packets.
fn write_then_send(writer: &OwnedFd, bytes: &[u8], n_stream: usize) {
    let (stream, packets) = bytes.split_at(n_stream);
    assert!(write_all(writer, stream));
    rustix::fs::fcntl_setfl(writer, OFlags::DIRECT).unwrap();
    for packet in packets.chunks(3000) {
        assert_eq!(rustix::io::write(writer, packet), Ok(packet.len()));
    }
}

/// Returns the writer of a pipe, and its reader's thread, which makes short reads.
fn reader() -> (OwnedFd, JoinHandle<Vec<u8>>) {
    let (reader, writer) = pipe();
    let thread = thread::spawn(move || {
        let (mut bytes, mut room) = (Vec::new(), [0; READ]);
        loop {
            match rustix::io::read(&reader, &mut room).unwrap() {
                0 => return bytes,
                n => bytes.extend_from_slice(&room[..n]),
            }
        }
    });
    (writer, thread)
}

/// Runs a transfer with options into pipes and other sinks, and asserts that each pipe's reader
/// reads all bytes.
#[track_caller]
fn assert_stream(
    n_stream: usize,
    n_pipes: usize,
    others: &[OwnedFd],
    what: &str,
    configure: impl for<'a> Fn(Transfer<'a>) -> Transfer<'a>,
) -> Report {
    assert_stream_by(n_stream, n_pipes, others, what, |transfer, others| {
        run_also_to(configure(transfer), others)
    })
}

/// Calls `run` with a transfer into a pipe and with the other sinks, and asserts that each pipe's
/// reader reads all bytes.
#[track_caller]
fn assert_stream_by(
    n_stream: usize,
    n_pipes: usize,
    others: &[OwnedFd],
    what: &str,
    run: impl Fn(Transfer<'_>, &[&OwnedFd]) -> zcopy::Result<Report>,
) -> Report {
    let bytes = pattern(n_stream + PACKETS);
    let (source, writer) = writer(&bytes, n_stream);
    let (pipes, readers): (Vec<_>, Vec<_>) = (0..n_pipes).map(|_| reader()).unzip();
    let transfer = Transfer::new(source.as_fd(), pipes[0].as_fd());
    let others: Vec<_> = pipes[1..].iter().chain(others).collect();
    let report = run(transfer, &others).unwrap();
    drop(pipes);
    writer.join().unwrap();
    let what = format!("{what}, packets from byte {n_stream} on: {report:#}");
    for reader in readers {
        assert_same(&reader.join().unwrap(), &bytes, &what);
    }
    report
}

#[test]
fn one_pipe_receives_a_stream() {
    bounded(|| {
        for n_stream in STREAMS {
            let assert = |what: &str, configure: &dyn for<'a> Fn(Transfer<'a>) -> Transfer<'a>| {
                assert_stream(n_stream, 1, &[], what, configure)
            };
            let report = assert("no option", &|transfer| transfer);
            let mut attempts = report.attempts().iter();
            assert!(
                attempts.all(|it| it.strategy() == Strategy::Buffered || it.error().is_some()),
                "{report:#}"
            );
            assert("grown pipes", &|transfer| transfer.grow_pipes(true));
            assert("a small buffer", &|transfer| transfer.buffer_size(70_000));
            assert("a limit", &|transfer| {
                transfer.limit((n_stream + PACKETS) as u64)
            });
            assert("a tick", &|transfer| {
                transfer.tick(Duration::from_secs(3600))
            });
            assert("a rate", &|transfer| transfer.rate_limit(1 << 30));
        }
    });
}

#[test]
fn pipes_among_several_sinks_receive_a_stream() {
    bounded(|| {
        for n_stream in STREAMS {
            for n_pipes in [1, 2] {
                let written = || OwnedFd::from(file(b""));
                let other_sinks = [
                    vec![null()],
                    vec![written()],
                    vec![appending(&written())],
                    vec![null(), written(), written()],
                ];
                for others in &other_sinks {
                    let what = format!("{n_pipes} pipes and {} others", others.len());
                    assert_stream(n_stream, n_pipes, others, &what, |transfer| transfer);
                    assert_stream(n_stream, n_pipes, others, &what, |transfer| {
                        transfer.grow_pipes(true)
                    });
                }
            }
            assert_stream(n_stream, 2, &[], "two pipes", |transfer| transfer);
            assert_stream_by(n_stream, 1, &[], "one of several", |transfer, _| {
                FanOut::from(transfer).run()
            });
        }
    });
}

/// The source holds all bytes before the transfer begins, and more than the buffer has room for. A
/// read that ended within a packet would lose the rest of it.
#[test]
fn no_read_divides_a_packet_behind_a_stream() {
    if !needs(&[Strategy::Splice]) {
        return;
    }
    let packets = 120_000;
    for n_stream in (100_000..700_000).step_by(997) {
        bounded(move || {
            let bytes = pattern(n_stream + packets);
            let assert = |others: &[OwnedFd], buffer_size: Option<usize>| {
                let (source, feed) = pipe();
                rustix::pipe::fcntl_setpipe_size(&feed, 1 << 20).unwrap();
                write_then_send(&feed, &bytes, n_stream);
                drop(feed);
                let (sink, reader) = reader();
                let mut transfer = Transfer::new(&source, &sink);
                if let Some(size) = buffer_size {
                    transfer = transfer.buffer_size(size);
                }
                let report = run_also_to(transfer, others).unwrap();
                drop(sink);
                let what = format!("packets from byte {n_stream} on, {buffer_size:?}: {report:#}");
                assert_same(&reader.join().unwrap(), &bytes, &what);
            };
            assert(&[], None);
            assert(&[], Some(4096));
            assert(&[null()], None);
        });
    }
}

/// The transfer enlarges the source once more than 64 KiB have come. What the writer sends meanwhile
/// is more than the buffer has room for.
#[test]
fn no_read_of_a_pipe_that_grew_divides_a_packet() {
    if !needs(&[Strategy::Splice]) {
        return;
    }
    let packets = 120_000;
    bounded(move || {
        for n_stream in (400_000..700_000).step_by(2000) {
            let bytes = pattern(n_stream + packets);
            let (source, writer) = writer(&bytes, n_stream);
            let mut writer = Some(writer);
            let mut n_moved = 0;
            let sink = file(b"");
            let transfer = Transfer::new(&source, &sink).grow_pipes(true);
            let transfer = transfer.strategy(Strategy::Buffered).inspect(|bytes| {
                // The source had grown before this step.
                if let Some(writer) = writer.take_if(|_| n_moved > 64 << 10) {
                    writer.join().unwrap();
                }
                n_moved += bytes.len();
            });
            let report = transfer.run().unwrap();
            assert_eq!(report.grown_source(), Some(1 << 20), "{report:#}");
            assert_same(&contents(&sink), &bytes, &format!("{n_stream}: {report:#}"));
        }
    });
}

/// A write of 4097 bytes in packet mode is a packet of a page and one of a byte. The private pipe
/// has 16 slots, all of which are in use, and at one of the lengths these two packets are the last.
#[test]
fn a_packet_before_the_last_byte_of_a_full_pipe_is_not_passed_on() {
    const PIECE: usize = 3000;
    bounded(|| {
        for n_pieces in 200..216 {
            let n_stream = n_pieces * PIECE;
            let bytes = pattern(n_stream + 4097);
            let (source, feed) = pipe();
            rustix::pipe::fcntl_setpipe_size(&feed, 1 << 20).unwrap();
            for piece in bytes[..n_stream].chunks(PIECE) {
                assert_eq!(rustix::io::write(&feed, piece), Ok(PIECE));
            }
            rustix::fs::fcntl_setfl(&feed, OFlags::DIRECT).unwrap();
            assert_eq!(rustix::io::write(&feed, &bytes[n_stream..]), Ok(4097));
            drop(feed);
            let (sink, reader) = reader();
            let transfer = Transfer::new(&source, &sink).buffer_size(64 << 10);
            let report = transfer.run().unwrap();
            drop(sink);
            let what = format!("{n_pieces}: {report:#}");
            assert_same(&reader.join().unwrap(), &bytes, &what);
        }
    });
}

/// The bytes that were taken out of the source are handed back.
#[test]
fn a_requested_strategy_that_meets_packets_fails_and_loses_nothing() {
    bounded(|| {
        for strategy in allowed([Strategy::SplicePipe, Strategy::Tee]) {
            for n_stream in STREAMS {
                let bytes = pattern(n_stream + PACKETS);
                let (source, writer) = writer(&bytes, n_stream);
                let (sink, reader) = reader();
                let other = file(b"");
                let transfer = Transfer::new(&source, &sink).strategy(strategy);
                let also_to = (strategy == Strategy::Tee).then_some(&other);
                let error = run_also_to(transfer, also_to).unwrap_err();
                let what = format!("{strategy}, {n_stream}: {error:#}");
                assert!(error.is_unsuitable(), "{what}");
                assert!(what.contains("packet"), "{what}");
                drop(sink);
                let arrived = reader.join().unwrap();
                assert_eq!(arrived.len() as u64, error.bytes(), "{what}");
                if strategy == Strategy::Tee {
                    assert_same(&contents(&other), &arrived, &what);
                }
                let rest = read_to_end(&source);
                let all = [&arrived, error.undelivered(), &rest].concat();
                assert_same(&all, &bytes, &what);
                writer.join().unwrap();
            }
        }
    });
}
