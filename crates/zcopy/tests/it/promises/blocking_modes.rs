//! Promise 5: blocking and non-blocking descriptors both work, without a spin or a stall.
//!
//! The unit tests show that `EINTR` is retried, with the simulated kernel: installing a signal
//! handler needs `unsafe`.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::ioctl_fionread;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::pipe::fcntl_setpipe_size;
use zcopy::{Ended, Side, Strategy, Transfer};

use crate::endpoints::{Sink, SinkKind, Source, SourceKind, null, pipe, tcp};
use crate::files::{assert_same, pattern, write_all};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::refused::{allowed, first_allowed, is_allowed, is_refused};
use crate::skip::{is_root, skip};
use crate::strategies::{assert_served, strategies_for, waits_for_readers};

const SOURCES: [SourceKind; 5] = [
    SourceKind::Pipe,
    SourceKind::Tcp,
    SourceKind::UnixStream,
    SourceKind::Memfd,
    SourceKind::UnixSeqpacket,
];
const SINKS: [SinkKind; 4] = [
    SinkKind::Pipe,
    SinkKind::Tcp,
    SinkKind::UnixStream,
    SinkKind::Regular(Fs::Tmpfs),
];

#[test]
fn promise_5_both_modes_on_both_sides_with_and_without_a_tick() {
    let bytes = pattern(700_001);
    let modes = [OFlags::empty(), OFlags::NONBLOCK];
    for (from, to) in SOURCES
        .into_iter()
        .flat_map(|from| SINKS.map(|to| (from, to)))
    {
        for strategy in strategies_for(from, to) {
            for (source_mode, sink_mode) in modes.into_iter().flat_map(|a| modes.map(|b| (a, b))) {
                for tick in [None, Some(Duration::from_secs(3600))] {
                    let what = format!(
                        "{from:?} {source_mode:?} to {to:?} {sink_mode:?}, {strategy:?}, {tick:?}"
                    );
                    let (Some(source), Some(sink)) = (Source::new(from, &bytes), Sink::new(to))
                    else {
                        continue;
                    };
                    rustix::fs::fcntl_setfl(&source.fd, source_mode).unwrap();
                    rustix::fs::fcntl_setfl(&sink.fd, sink_mode).unwrap();
                    let transfer = Transfer::new(&source.fd, &sink.fd)
                        .maybe_strategy(strategy)
                        .maybe_tick(tick);
                    let report = transfer
                        .run()
                        .unwrap_or_else(|error| panic!("{what}: {error:#}"));
                    assert_eq!(report.bytes(), bytes.len() as u64, "{what}");
                    assert_eq!(report.ended(), Ended::Eof, "{what}");
                    assert_served(&report, strategy, &what);
                    assert_same(&sink.into_bytes(0).unwrap(), &bytes, &what);
                }
            }
        }
    }
}

/// A file is always ready, so that a tick does not shorten the writes to it.
#[test]
fn promise_5_a_tick_costs_no_calls_between_files() {
    let bytes = pattern(crate::every_pair::LARGE);
    let calls = |tick| {
        let source = Source::new(SourceKind::Memfd, &bytes)?;
        let sink = Sink::new(SinkKind::Regular(Fs::Ext4))?;
        let transfer = Transfer::new(&source.fd, &sink.fd).strategy(Strategy::Buffered);
        let transfer = transfer.maybe_tick(tick);
        let report = transfer.run().unwrap();
        assert_eq!(report.strategy(), Some(Strategy::Buffered));
        assert_same(&sink.into_bytes(0).unwrap(), &bytes, "buffered");
        Some(report.attempts()[0].calls())
    };
    if let (Some(with), Some(without)) = (calls(Some(Duration::from_secs(3600))), calls(None)) {
        assert!(
            with <= 2 * without,
            "{with} calls with a tick, {without} without"
        );
    }
}

/// Waits until the writer of this socket waits for room. Bytes that come in small pieces are read.
fn wait_until_full(socket: &OwnedFd) {
    let mut before = 0;
    loop {
        std::thread::sleep(Duration::from_millis(10));
        let there = ioctl_fionread(socket).unwrap();
        if there == before && there > 0 {
            return;
        }
        before = there;
    }
}

/// A tick does not keep a stream from its offload. Each pair gets several tries, with and without a
/// tick: a plan reads a stream that comes in small pieces, as on a slow machine, for as long as it
/// does.
#[test]
fn promise_5_a_tick_changes_no_strategy() {
    const N_TRIES: usize = 10;
    let bytes = pattern(crate::every_pair::LARGE);
    for (from, to) in [
        (SourceKind::Tcp, SinkKind::Regular(Fs::Ext4)),
        (SourceKind::Tcp, SinkKind::Tcp),
        (SourceKind::Pipe, SinkKind::Pipe),
        (SourceKind::UnixStream, SinkKind::Pipe),
        (SourceKind::Memfd, SinkKind::Tcp),
        (SourceKind::Memfd, SinkKind::Regular(Fs::Ext4)),
    ] {
        let moved_by = |tick| {
            let source = Source::new(from, &bytes)?;
            let sink = Sink::new(to)?;
            if from == SourceKind::UnixStream {
                wait_until_full(&source.fd);
            }
            let transfer = Transfer::new(&source.fd, &sink.fd);
            let transfer = transfer.maybe_tick(tick);
            let report = transfer.run().unwrap();
            assert_same(&sink.into_bytes(0).unwrap(), &bytes, "a tick");
            report.strategy()
        };
        let offloads = match (from, to) {
            (SourceKind::Memfd, SinkKind::Tcp) => &[Strategy::Sendfile, Strategy::SplicePipe][..],
            _ => &[Strategy::SplicePipe],
        };
        if Sink::new(to).is_none() {
            continue;
        }
        let expected = first_allowed(offloads);
        for tick in [None, Some(Duration::from_secs(3600))] {
            let mut tries = (0..N_TRIES).map(|_| moved_by(tick));
            let is_expected = tries.any(|strategy| strategy == Some(expected));
            assert!(is_expected, "{from:?} to {to:?}, {tick:?}");
        }
    }
}

/// No flag keeps a single call to a terminal from waiting, so each call asks for few bytes.
#[test]
fn promise_5_terminals_in_both_modes_with_and_without_a_tick() {
    let bytes = pattern(30_000);
    for (from, to) in [
        (SourceKind::Terminal, SinkKind::Pipe),
        (SourceKind::Pipe, SinkKind::Terminal),
        (SourceKind::Terminal, SinkKind::Terminal),
    ] {
        for strategy in allowed([None, Some(Strategy::SplicePipe), Some(Strategy::Buffered)]) {
            for mode in [OFlags::empty(), OFlags::NONBLOCK] {
                for tick in [None, Some(Duration::from_secs(3600))] {
                    let what = format!("{from:?} to {to:?}, {strategy:?}, {mode:?}, {tick:?}");
                    let source = Source::new(from, &bytes).unwrap();
                    let sink = Sink::new(to).unwrap();
                    rustix::fs::fcntl_setfl(&source.fd, mode).unwrap();
                    rustix::fs::fcntl_setfl(&sink.fd, mode).unwrap();
                    let transfer = Transfer::new(&source.fd, &sink.fd)
                        .limit(30_000)
                        .maybe_strategy(strategy)
                        .maybe_tick(tick);
                    let report = transfer
                        .run()
                        .unwrap_or_else(|error| panic!("{what}: {error:#}"));
                    assert_eq!(report.bytes(), 30_000, "{what}");
                    assert_eq!(
                        report.strategy(),
                        Some(strategy.unwrap_or(Strategy::Buffered)),
                        "{what}"
                    );
                    assert_same(&sink.into_bytes(30_000).unwrap(), &bytes, &what);
                }
            }
        }
    }
}

/// Each byte comes after the one before has arrived. A transfer that retried instead of waiting
/// would make more calls than the bytes need.
#[test]
fn promise_5_a_trickle_costs_no_more_calls_than_bytes() {
    const N_BYTES: u8 = 50;
    for strategy in strategies_for(SourceKind::Pipe, SinkKind::Pipe) {
        let (source, feed) = pipe();
        let (collect, sink) = pipe();
        for fd in [&source, &sink] {
            rustix::fs::fcntl_setfl(fd, OFlags::NONBLOCK).unwrap();
        }
        let peer = std::thread::spawn(move || {
            for n in 0..N_BYTES {
                assert!(write_all(&feed, &[n]));
                let mut byte = [0];
                assert_eq!(rustix::io::read(&collect, &mut byte), Ok(1));
                assert_eq!(byte, [n]);
            }
            // Keep the reader open: a closed sink counts for more than the end of the source.
            collect
        });
        let transfer = Transfer::new(&source, &sink).maybe_strategy(strategy);
        let report = transfer.run().unwrap();
        drop(peer.join().unwrap());
        assert_eq!(report.bytes(), u64::from(N_BYTES));
        assert_served(&report, strategy, &format!("{strategy:?}"));
        let calls: u64 = report.attempts().iter().map(zcopy::Attempt::calls).sum();
        // For each byte a call that finds nothing, a read and a write; then the calls that find the
        // end.
        assert!(calls <= 3 * u64::from(N_BYTES) + 3, "{report:#}");
    }
}

#[test]
fn promise_5_break_while_the_source_is_idle_takes_one_tick() {
    for to in SINKS {
        for strategy in strategies_for(SourceKind::Pipe, to) {
            for mode in [OFlags::empty(), OFlags::NONBLOCK] {
                let what = format!("to {to:?}, {strategy:?}, {mode:?}");
                let (source, _feed) = pipe();
                rustix::fs::fcntl_setfl(&source, mode).unwrap();
                let Some(sink) = Sink::new(to) else {
                    continue;
                };
                let mut ticks = 0;
                let transfer = Transfer::new(&source, &sink.fd)
                    .tick(Duration::from_millis(1))
                    .observe(|progress| {
                        ticks += 1;
                        assert_eq!(progress.bytes(), 0);
                        assert_ne!(progress.blocked(), None);
                        assert_ne!(progress.blocked(), Some(Side::Sink));
                        ControlFlow::Break(())
                    })
                    .maybe_strategy(strategy);
                let report = transfer.run().unwrap();
                assert_eq!(report.ended(), Ended::Stopped, "{what}");
                assert_eq!((report.bytes(), ticks), (0, 1), "{what}");
                // Calls that the filter refuses are not counted.
                let attempts = report.attempts().iter();
                let answered = attempts.filter(|attempt| is_allowed(attempt.strategy()));
                let calls: u64 = answered.map(zcopy::Attempt::calls).sum();
                // A read that is refused the splice before it counts it.
                let n_refused = u64::from(is_refused(Strategy::Splice));
                assert!(calls <= 1 + n_refused, "{what}: {report:#}");
            }
        }
    }
}

/// A file that claims to be empty may be a kernel log; the transfer waits for it as for a pipe.
#[test]
fn promise_5_break_while_a_file_that_claims_to_be_empty_is_idle() {
    if !is_root() {
        return;
    }
    let Ok(log) = File::open("/proc/kmsg") else {
        skip("/proc/kmsg cannot be read here");
        return;
    };
    let null = null();
    let transfer = Transfer::new(&log, &null)
        .tick(Duration::from_millis(1))
        .observe(|progress| match progress.blocked() {
            Some(side) => {
                assert_eq!(side, Side::Source);
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        });
    assert_eq!(transfer.run().unwrap().ended(), Ended::Stopped);
}

/// Nobody reads the sink: the transfer fills it, waits, and is stopped at the first tick. No byte
/// is lost.
#[test]
fn promise_5_break_while_the_sink_is_full_takes_one_tick() {
    // One slot of the pipe may hold 32 KiB from a socket, so that 16 slots hold more than 64 KiB.
    let bytes = pattern(crate::every_pair::LARGE);
    for from in SOURCES {
        for strategy in strategies_for(from, SinkKind::Pipe) {
            for mode in [OFlags::empty(), OFlags::NONBLOCK] {
                if mode.is_empty() && waits_for_readers(strategy) {
                    continue;
                }
                let what = format!("{from:?}, {strategy:?}, {mode:?}");
                let source = Source::new(from, &bytes).unwrap();
                let (reader, sink) = pipe();
                rustix::fs::fcntl_setfl(&sink, mode).unwrap();
                let mut ticks = 0;
                let transfer = Transfer::new(&source.fd, &sink)
                    .grow_pipes(false)
                    .tick(Duration::from_millis(1))
                    .observe(|progress| match progress.blocked() {
                        // The source may be late.
                        None | Some(Side::Source) => ControlFlow::Continue(()),
                        Some(_) => {
                            ticks += 1;
                            ControlFlow::Break(())
                        }
                    })
                    .maybe_strategy(strategy);
                let report = transfer.run().unwrap();
                assert_eq!(report.ended(), Ended::Stopped, "{what}");
                assert_eq!(ticks, 1, "{what}");
                assert_served(&report, strategy, &what);
                drop(sink);
                let arrived = crate::files::read_to_end(&reader);
                assert_eq!(report.bytes(), arrived.len() as u64, "{what}");
                if let Some(cursor) = source.cursor() {
                    assert_eq!(cursor, report.bytes(), "{what}");
                }
                let undelivered = report.undelivered().to_vec();
                let rest = source.into_rest();
                assert_same(&[arrived, undelivered, rest].concat(), &bytes, &what);
            }
        }
    }
}

#[test]
fn promise_5_pipes_of_one_slot_are_enough() {
    let bytes = pattern(100_003);
    for (from, to) in [
        (SourceKind::Pipe, SinkKind::Pipe),
        (SourceKind::Memfd, SinkKind::Pipe),
        (SourceKind::Pipe, SinkKind::Regular(Fs::Tmpfs)),
        (SourceKind::UnixStream, SinkKind::Pipe),
        (SourceKind::Pipe, SinkKind::UnixStream),
    ] {
        for strategy in strategies_for(from, to) {
            let what = format!("{from:?} to {to:?}, {strategy:?}");
            // Shrink the source pipe while it is empty.
            let (source, feed) = pipe();
            let plain = Source::new(from, &bytes).unwrap();
            let Some(sink) = Sink::new(to) else {
                continue;
            };
            let source_fd: &OwnedFd = if from.is_pipe() {
                assert_eq!(fcntl_setpipe_size(&source, 4096), Ok(4096));
                let bytes = bytes.clone();
                std::thread::spawn(move || write_all(&feed, &bytes));
                &source
            } else {
                &plain.fd
            };
            if to.is_pipe() {
                assert_eq!(fcntl_setpipe_size(&sink.fd, 4096), Ok(4096));
            }
            let transfer = Transfer::new(source_fd, &sink.fd)
                .grow_pipes(false)
                .maybe_strategy(strategy);
            let report = transfer.run().unwrap();
            assert_eq!(report.bytes(), bytes.len() as u64, "{what}");
            assert_served(&report, strategy, &what);
            assert_same(&sink.into_bytes(0).unwrap(), &bytes, &what);
        }
    }
}

/// A time-out that the caller set on the socket ends the transfer, with and without a tick.
#[test]
fn promise_5_the_socket_s_own_time_out_ends_the_transfer() {
    let null = null();
    for strategy in allowed([None, Some(Strategy::SplicePipe), Some(Strategy::Buffered)]) {
        for tick in [None, Some(Duration::from_millis(1))] {
            let (_peer, source) = tcp();
            let soon = Some(Duration::from_millis(5));
            set_socket_timeout(&source, Timeout::Recv, soon).unwrap();
            let transfer = Transfer::new(&source, &null)
                .maybe_strategy(strategy)
                .maybe_tick(tick);
            let error = transfer.run().unwrap_err();
            assert_eq!(
                error.io_error_kind(),
                ErrorKind::WouldBlock,
                "{strategy:?}, {tick:?}"
            );
            assert_eq!((error.side(), error.bytes()), (Side::Source, 0));
        }
    }
}

/// Each datagram takes one read and one write, and an empty one is the end.
#[test]
fn promise_5_messages_keep_their_boundaries() {
    use rustix::net::{RecvFlags, SendFlags, SocketType};
    for socket_type in [SocketType::DGRAM, SocketType::SEQPACKET] {
        let (feed, source) = crate::endpoints::unix(socket_type);
        let (collect, sink) = crate::endpoints::unix(socket_type);
        let messages: [&[u8]; 4] = [b"one", b"and", &[7; 5000], b"last"];
        for message in messages {
            rustix::net::send(&feed, message, SendFlags::NOSIGNAL).unwrap();
        }
        let report = Transfer::new(&source, &sink).limit(5010).run().unwrap();
        assert_eq!(report.bytes(), 5010);
        assert_eq!(report.strategy(), Some(Strategy::Buffered));
        for message in messages {
            let mut bytes = vec![0; 6000];
            let (n, _) = rustix::net::recv(&collect, &mut bytes[..], RecvFlags::DONTWAIT).unwrap();
            assert_eq!(&bytes[..n], message);
        }
        // A message that is longer than the limit stays in the socket.
        rustix::net::send(&feed, b"too long", SendFlags::NOSIGNAL).unwrap();
        let report = Transfer::new(&source, &sink).limit(7).run().unwrap();
        assert_eq!((report.bytes(), report.ended()), (0, Ended::Limit));
        let report = Transfer::new(&source, &sink).limit(8).run().unwrap();
        assert_eq!((report.bytes(), report.ended()), (8, Ended::Limit));
    }
}

#[test]
fn promise_5_a_full_sink_is_not_waited_for_after_the_last_byte() {
    // The last byte fills the pipe, and nobody reads it before the transfer is over.
    let bytes = pattern(64 << 10);
    for from in [SourceKind::Memfd, SourceKind::Pipe, SourceKind::UnixStream] {
        let (Some(source), (_reader, sink)) = (Source::new(from, &bytes), pipe()) else {
            continue;
        };
        let mut ticks = 0;
        let report = Transfer::new(&source.fd, &sink)
            .grow_pipes(false)
            .tick(Duration::from_millis(5))
            .observe(|progress| {
                ticks += u32::from(progress.blocked() == Some(Side::Sink));
                // More ticks than a slow source could need.
                if ticks < 1000 {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })
            .run()
            .unwrap();
        let done = (report.bytes(), report.ended());
        assert_eq!(
            done,
            (bytes.len() as u64, Ended::Eof),
            "{from:?}\n{report:#}"
        );
    }
}

#[test]
fn promise_5_the_longest_tick_is_no_tick() {
    let zeros = File::open("/dev/zero").unwrap();
    let (_reader, sink) = pipe();
    let transfer = Transfer::new(&zeros, &sink)
        .limit(50_000)
        .tick(Duration::MAX);
    assert_eq!(transfer.run().unwrap().bytes(), 50_000);
}
