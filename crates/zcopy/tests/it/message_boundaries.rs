//! Packets, kernel log records and messages: a short read loses the rest of one. No transfer makes
//! such a read, whatever its rate or limit.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size_force;
use rustix::net::{RecvFlags, SocketType, recv};
use zcopy::{Ended, Error, Report, Side, Strategy, Transfer};

use crate::concurrency::bounded;
use crate::endpoints::{named_pipe, null, packets, pipe, unix};
use crate::files::{
    appending, assert_same, contents, file, file_in, pattern, read_to_end, reopen, write_all,
};
use crate::mounts::Fs;
use crate::options::run_also_to;
use crate::refused::{is_allowed, needs};
use crate::skip::{is_root, skip};

/// The options and sinks of a transfer from a packet pipe.
#[derive(Clone, Copy, Debug)]
enum Setup {
    Planned,
    By(Strategy),
    Inspected,
    Counted,
    SmallBuffer,
    ToAppend,
    ToTwo,
    ToTwoInspected,
    Ticking,
}

const SETUPS: [Setup; 10] = [
    Setup::Planned,
    Setup::By(Strategy::Buffered),
    Setup::By(Strategy::SplicePipe),
    Setup::Inspected,
    Setup::Counted,
    Setup::SmallBuffer,
    Setup::ToAppend,
    Setup::ToTwo,
    Setup::ToTwoInspected,
    Setup::Ticking,
];

/// The setups whose strategy is not refused.
fn allowed_setups() -> impl Iterator<Item = Setup> {
    SETUPS.into_iter().filter(|setup| match setup {
        Setup::By(strategy) => is_allowed(*strategy),
        _ => true,
    })
}

/// Runs a transfer into a file, and returns its outcome and the bytes that arrived.
fn outcome_of(
    setup: Setup,
    source: &OwnedFd,
    option: impl FnOnce(Transfer<'_>) -> Transfer<'_>,
) -> (Result<Report, Error>, Vec<u8>) {
    let (sink, other_sink) = (file(b""), file(b""));
    let fd = match setup {
        Setup::ToAppend => appending(&sink),
        _ => reopen(&sink, OFlags::WRONLY),
    };
    let mut n_inspected = 0;
    let transfer = option(Transfer::new(source.as_fd(), fd.as_fd()));
    let transfer = match setup {
        Setup::Planned | Setup::ToAppend | Setup::ToTwo => transfer,
        Setup::By(strategy) => transfer.strategy(strategy),
        Setup::Inspected | Setup::ToTwoInspected => {
            transfer.inspect(|bytes| n_inspected += bytes.len())
        }
        Setup::Counted => transfer.records(b'\n'),
        Setup::SmallBuffer => transfer.strategy(Strategy::Buffered).buffer_size(1),
        Setup::Ticking => transfer.tick(std::time::Duration::from_secs(3600)),
    };
    let to_two = matches!(setup, Setup::ToTwo | Setup::ToTwoInspected);
    let outcome = run_also_to(transfer, to_two.then_some(&other_sink));
    let arrived = contents(&sink);
    if to_two {
        assert_same(&contents(&other_sink), &arrived, "the other sink");
    }
    (outcome, arrived)
}

/// Runs a transfer into a file, and returns its report and the bytes that arrived.
fn transferred(
    setup: Setup,
    source: &OwnedFd,
    option: impl FnOnce(Transfer<'_>) -> Transfer<'_>,
) -> (Report, Vec<u8>) {
    let (outcome, arrived) = outcome_of(setup, source, option);
    let report = outcome.unwrap_or_else(|error| panic!("{setup:?}: {error:#}"));
    assert_eq!(arrived.len() as u64, report.bytes(), "{setup:?}");
    (report, arrived)
}

#[test]
fn a_rate_limit_does_not_cut_packets_short() {
    for setup in allowed_setups() {
        let (source, bytes) = packets(&[1000; 3]);
        let (report, arrived) = transferred(setup, &source, |it| it.rate_limit(30_000));
        assert_same(&arrived, &bytes, &format!("{setup:?}: {report:#}"));
        assert_eq!(report.ended(), Ended::Eof, "{setup:?}");
    }
}

#[test]
fn a_limit_loses_nothing_of_a_packet() {
    for limit in [1, 10, 999, 1000, 1001, 2999] {
        for setup in allowed_setups() {
            let what = format!("{setup:?}, {limit}");
            let (source, bytes) = packets(&[1000; 3]);
            let (report, arrived) = transferred(setup, &source, |it| it.limit(limit));
            assert_same(&arrived, &bytes[..limit as usize], &what);
            assert_eq!(report.ended(), Ended::Limit, "{what}");
            // Only a splice leaves a part of a packet in the pipe.
            if !needs(&[Strategy::Splice]) {
                continue;
            }
            // The rest of the packet stays in the pipe.
            let rest = [report.undelivered(), &read_to_end(&source)].concat();
            assert_same(&rest, &bytes[limit as usize..], &what);
            assert_eq!(report.undelivered(), b"", "{what}: {report:#}");
        }
    }
}

/// Only the writer of a FIFO knows that it writes packets. The transfer splices them into its
/// private pipe and reads them from there.
#[test]
fn packets_in_the_private_pipe_are_read_whole() {
    let Some(dir) = Fs::Ext4.dir() else { return };
    let (_fifos, path) = named_pipe();
    let open = |flags| rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let source = open(OFlags::RDONLY | OFlags::NONBLOCK);
    let writer = open(OFlags::WRONLY);
    rustix::fs::fcntl_setfl(&writer, OFlags::DIRECT).unwrap();
    let bytes = pattern(15 * 3001);
    for packet in bytes.chunks(3001) {
        assert_eq!(rustix::io::write(&writer, packet), Ok(packet.len()));
    }
    drop(writer);
    let sink = file_in(&dir, b"");
    let direct = reopen(&sink, OFlags::WRONLY | OFlags::DIRECT);
    let transfer = Transfer::new(&source, &direct).buffer_size(1);
    let report = transfer.run().unwrap();
    assert_same(&contents(&sink), &bytes, &format!("{report:#}"));
}

#[test]
fn a_rate_limit_does_not_fail_a_counter() {
    for setup in [
        Setup::Planned,
        Setup::Inspected,
        Setup::SmallBuffer,
        Setup::ToTwo,
        Setup::Ticking,
    ] {
        let source: OwnedFd = eventfd(7, EventfdFlags::empty()).unwrap();
        let (report, arrived) = transferred(setup, &source, |it| it.rate_limit(100).limit(8));
        assert_eq!(arrived, 7_u64.to_ne_bytes(), "{setup:?}: {report:#}");
        let source: OwnedFd = eventfd(7, EventfdFlags::empty()).unwrap();
        let (report, arrived) = transferred(setup, &source, |it| it.limit(3));
        let all = [&arrived[..], report.undelivered()].concat();
        assert_eq!(
            (arrived.len(), all),
            (3, 7_u64.to_ne_bytes().to_vec()),
            "{setup:?}"
        );
        assert_eq!(report.ended(), Ended::Limit);
    }
}

#[test]
fn a_limit_loses_nothing_of_a_kernel_message() {
    let open = || {
        rustix::fs::open(
            "/dev/kmsg",
            OFlags::RDONLY | OFlags::NONBLOCK,
            Mode::empty(),
        )
    };
    let (Ok(source), Ok(oracle)) = (open(), open()) else {
        skip("/dev/kmsg cannot be read");
        return;
    };
    let mut record = vec![0; 8192];
    let Ok(len) = rustix::io::read(&oracle, &mut record) else {
        skip("/dev/kmsg holds nothing");
        return;
    };
    let (report, arrived) = transferred(Setup::Planned, &source, |it| it.limit(5).rate_limit(1000));
    let all = [&arrived[..], report.undelivered()].concat();
    assert_eq!(
        (arrived.len(), all),
        (5, record[..len].to_vec()),
        "{report:#}"
    );
}

/// Two readers share one socket. After the transfer has peeked at a message, the other reader may
/// take it, and the next message is longer.
#[test]
fn a_message_that_replaces_the_one_peeked_at_is_not_cut() {
    const N_MESSAGES: u64 = 20_000;
    const SHORT: usize = 10;
    const LONG: usize = 1000;
    /// Allows short messages, and no long one.
    const LIMIT: u64 = 990;
    for to_two in [false, true] {
        let (source, peer) = unix(SocketType::SEQPACKET);
        let is_over = AtomicBool::new(false);
        let taken = AtomicU64::new(0);
        let long = [b'l'; LONG];
        let (sent, moved) = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut sent = 0;
                for nth in 0..N_MESSAGES {
                    let message = if nth % 2 == 0 {
                        &long[..SHORT]
                    } else {
                        &long[..]
                    };
                    assert!(write_all(&peer, message));
                    sent += message.len() as u64;
                }
                drop(peer);
                sent
            });
            let other_reader = scope.spawn(|| {
                let mut message = [0; LONG];
                while !is_over.load(Ordering::Relaxed) {
                    match recv(&source, &mut message[..], RecvFlags::DONTWAIT) {
                        Ok((_, n)) => taken.fetch_add(n as u64, Ordering::Relaxed),
                        Err(Errno::AGAIN) => continue,
                        Err(errno) => panic!("{errno}"),
                    };
                    thread::yield_now();
                }
            });
            let (null, other_sink) = (null(), file(b""));
            let mut moved = 0;
            loop {
                let transfer = Transfer::new(&source, &null).limit(LIMIT);
                let report = run_also_to(transfer, to_two.then_some(&other_sink)).unwrap();
                moved += report.bytes() + report.undelivered().len() as u64;
                if report.ended() == Ended::Eof {
                    break;
                }
                // The next message is a long one, which the limit forbids a transfer to take.
                let mut message = [0; LONG];
                moved += recv(&source, &mut message[..], RecvFlags::empty())
                    .unwrap()
                    .1 as u64;
            }
            is_over.store(true, Ordering::Relaxed);
            other_reader.join().unwrap();
            (writer.join().unwrap(), moved)
        });
        assert_eq!(moved + taken.into_inner(), sent, "bytes are lost");
    }
}

#[test]
fn a_message_as_long_as_the_buffer_passes_and_a_longer_one_stays_in_its_socket() {
    /// Bytes of the buffer, which is never smaller for messages.
    const BUFFER: usize = 256 << 10;
    // Only root may have so long messages.
    if !is_root() {
        return;
    }
    bounded(|| {
        for socket_type in [SocketType::DGRAM, SocketType::SEQPACKET] {
            // Splices take no messages.
            let refused = |setup: &Setup| matches!(setup, Setup::By(Strategy::SplicePipe));
            for setup in SETUPS.into_iter().filter(|setup| !refused(setup)) {
                for len in [BUFFER, BUFFER + 1] {
                    let what = format!("{setup:?}, {len} bytes");
                    let (source, peer) = unix(socket_type);
                    set_socket_send_buffer_size_force(&peer, 1 << 20).unwrap();
                    let message = pattern(len);
                    assert!(write_all(&peer, &message), "{what}");
                    let (outcome, arrived) = outcome_of(setup, &source, |it| it.limit(len as u64));
                    if len == BUFFER {
                        assert!(outcome.is_ok(), "{what}: {outcome:?}");
                        assert_same(&arrived, &message, &what);
                        continue;
                    }
                    let error = outcome.expect_err(&what);
                    assert_eq!(error.side(), Side::Source, "{what}: {error:#}");
                    let too_long = Some(Errno::MSGSIZE.raw_os_error());
                    assert_eq!(error.raw_os_error(), too_long, "{what}: {error:#}");
                    assert_eq!((error.bytes(), arrived.len()), (0, 0), "{what}: {error:#}");
                    let mut left = vec![0; len];
                    let read = recv(&source, &mut left, RecvFlags::DONTWAIT).unwrap();
                    assert_eq!(read.1, len, "{what}");
                    assert_same(&left, &message, &what);
                }
            }
        }
    });
}

/// The bytes that tee shares with a pipe were read from the private pipe in one piece, and were too
/// long for one message.
#[test]
fn a_socket_of_messages_beside_a_pipe_receives_messages_that_it_accepts() {
    bounded(|| {
        let bytes = pattern(3 << 20);
        for socket_type in [SocketType::DGRAM, SocketType::SEQPACKET] {
            for from in ["file", "pipe", "packets"] {
                let (source, feed) = pipe();
                let source = match from {
                    "file" => file(&bytes).into(),
                    _ => source,
                };
                let (near, far) = unix(socket_type);
                let (reader, sink) = pipe();
                let report = thread::scope(|scope| {
                    scope.spawn(|| {
                        let feed = feed;
                        if from == "packets" {
                            rustix::fs::fcntl_setfl(&feed, OFlags::DIRECT).unwrap();
                        }
                        if from != "file" {
                            for piece in bytes.chunks(3000) {
                                assert!(write_all(&feed, piece));
                            }
                        }
                    });
                    scope.spawn(|| assert_same(&read_to_end(&reader), &bytes, "the pipe"));
                    scope.spawn(|| {
                        let (mut arrived, mut room) = (Vec::new(), vec![0; 256 << 10]);
                        while arrived.len() < bytes.len() {
                            let n = rustix::io::read(&far, &mut room).unwrap();
                            arrived.extend_from_slice(&room[..n]);
                        }
                        assert_same(&arrived, &bytes, "the socket");
                    });
                    let (sink, near) = (sink, near);
                    Transfer::new(&source, &sink).also_to(&near).run().unwrap()
                });
                assert_eq!(report.bytes(), bytes.len() as u64, "{from}: {report:#}");
            }
        }
    });
}
