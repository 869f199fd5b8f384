//! Promise 1: the bytes reported are the bytes that the sink accepted, also when a transfer fails.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::io::Errno;
use zcopy::{Ended, Side, Strategy, Transfer};

use super::{assert_nothing_lost, assert_rest};
use crate::endpoints::{SinkKind, Source, SourceKind, full, pipe, tcp};
use crate::every_pair::LARGE;
use crate::files::{contents, file, file_in, pattern};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::refused::{allowed, first_allowed};
use crate::strategies::{assert_served, every_strategy, strategies_for, waits_for_readers};

/// Sources whose cursor can be moved back and others, pipes and others.
const SOURCES: [SourceKind; 5] = [
    SourceKind::Regular(Fs::Ext4),
    SourceKind::SealedMemfd,
    SourceKind::Pipe,
    SourceKind::Tcp,
    SourceKind::UnixStream,
];

#[test]
fn promise_1_a_full_device_accepts_nothing() {
    let bytes = pattern(300_000);
    for from in SOURCES {
        for strategy in every_strategy() {
            let what = format!("{from:?}, {strategy:?}");
            let Some(source) = Source::new(from, &bytes) else {
                continue;
            };
            let full = full();
            let transfer = Transfer::new(&source.fd, &full).maybe_strategy(strategy);
            let error = transfer.run().unwrap_err();
            if matches!(strategy, None | Some(Strategy::Buffered)) {
                assert_eq!(error.side(), Side::Sink, "{what}");
                assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
                assert_eq!(
                    error.report().strategy(),
                    Some(Strategy::Buffered),
                    "{what}"
                );
            } else {
                assert!(error.is_unsuitable(), "{what}: {error:#}");
            }
            assert_nothing_lost(&error, source, b"", &bytes, &what);
        }
    }
}

/// The reader takes what each step brought, and closes the pipe after a number of steps.
#[test]
fn promise_1_a_pipe_that_is_closed_after_any_step_is_counted_to_the_byte() {
    let bytes = pattern(LARGE);
    for from in SOURCES {
        for strategy in strategies_for(from, SinkKind::Pipe) {
            if waits_for_readers(strategy) {
                continue;
            }
            for steps in 0..3 {
                let what = format!("{from:?}, {strategy:?}, closed after {steps} steps");
                let Some(source) = Source::new(from, &bytes) else {
                    continue;
                };
                let (reader, sink) = pipe();
                // With this capacity each step fits, so that none waits.
                rustix::pipe::fcntl_setpipe_size(&sink, 1 << 20).unwrap();
                let mut arrived = Vec::new();
                let mut reader = (steps > 0).then_some(reader);
                let mut n_steps = 0;
                let transfer = Transfer::new(&source.fd, &sink)
                    .observe(|progress| {
                        drain_pipe(reader.as_ref(), &mut arrived);
                        assert_eq!(progress.bytes(), arrived.len() as u64);
                        n_steps += 1;
                        if n_steps == steps {
                            reader.take();
                        }
                        ControlFlow::Continue(())
                    })
                    .maybe_strategy(strategy);
                let error = transfer.run().expect_err(&what);
                assert_eq!(error.side(), Side::Sink, "{what}: {error:#}");
                let errno = Some(Errno::PIPE.raw_os_error());
                assert_eq!(error.raw_os_error(), errno, "{what}");
                let last = error.report().attempts().last().unwrap();
                if let Some(strategy) = strategy {
                    assert_eq!(last.strategy(), strategy, "{what}");
                }
                assert_nothing_lost(&error, source, &arrived, &bytes, &what);
            }
        }
    }
}

fn drain_pipe(reader: Option<&OwnedFd>, arrived: &mut Vec<u8>) {
    let Some(reader) = reader else {
        panic!("a step after the pipe was closed");
    };
    let there = usize::try_from(rustix::io::ioctl_fionread(reader).unwrap()).unwrap();
    let mut bytes = vec![0; there];
    assert_eq!(rustix::io::read(reader, &mut bytes), Ok(there));
    arrived.extend(bytes);
}

/// The transfer waits in a call when the reader closes.
#[test]
fn promise_1_a_pipe_that_is_closed_during_a_call_is_counted_to_the_byte() {
    closed_during_a_call(SinkKind::Pipe, |taken| {
        let (reader, sink) = pipe();
        std::thread::spawn(move || read_bytes(&reader, taken));
        sink
    });
}

#[test]
fn promise_1_a_connection_that_is_reset_is_counted_to_the_byte() {
    closed_during_a_call(SinkKind::Tcp, |taken| {
        let (peer, sink) = tcp();
        rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
        std::thread::spawn(move || read_bytes(&peer, taken));
        sink
    });
}

fn closed_during_a_call(to: SinkKind, sink: impl Fn(usize) -> OwnedFd) {
    // More than the buffers of the kernel hold.
    let bytes = pattern(24 << 20);
    for from in [
        SourceKind::Regular(Fs::Tmpfs),
        SourceKind::Pipe,
        SourceKind::UnixStream,
    ] {
        for strategy in strategies_for(from, to) {
            for taken in [0, 100_000] {
                let what = format!("{from:?}, {strategy:?}, closed after {taken} bytes");
                let Some(source) = Source::new(from, &bytes) else {
                    continue;
                };
                let sink = sink(taken);
                let transfer = Transfer::new(&source.fd, &sink).maybe_strategy(strategy);
                let error = transfer.run().expect_err(&what);
                assert_eq!(error.side(), Side::Sink, "{what}: {error:#}");
                let errno = error.raw_os_error().map(Errno::from_raw_os_error);
                let is_gone = matches!(errno, Some(Errno::PIPE | Errno::CONNRESET));
                assert!(is_gone, "{what}: {error:#}");
                assert!(error.bytes() >= taken as u64, "{what}: {error:#}");
                let last = error.report().attempts().last().unwrap();
                if let Some(strategy) = strategy {
                    assert_eq!(last.strategy(), strategy, "{what}");
                }
                assert_rest(&error, source, &bytes, &what);
            }
        }
    }
}

/// Reads `n` bytes.
fn read_bytes(reader: &OwnedFd, mut n: usize) {
    let mut buffer = vec![0; 64 << 10];
    while n > 0 {
        let len = buffer.len().min(n);
        n -= rustix::io::read(reader, &mut buffer[..len]).unwrap();
    }
}

#[test]
fn promise_1_a_source_that_is_reset_is_counted_to_the_byte() {
    let bytes = pattern(40_000);
    for strategy in allowed([None, Some(Strategy::Buffered), Some(Strategy::SplicePipe)]) {
        let (peer, source) = tcp();
        assert!(crate::files::write_all(&peer, &bytes));
        rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
        let mut peer = Some(peer);
        let sink = file(b"");
        let transfer = Transfer::new(&source, &sink)
            .observe(|_| {
                peer.take();
                ControlFlow::Continue(())
            })
            .maybe_strategy(strategy);
        let error = transfer.run().unwrap_err();
        assert_eq!(error.side(), Side::Source, "{strategy:?}: {error:#}");
        assert_eq!(
            error.raw_os_error(),
            Some(Errno::CONNRESET.raw_os_error()),
            "{strategy:?}"
        );
        let arrived = contents(&sink);
        assert_eq!(error.bytes(), arrived.len() as u64, "{strategy:?}");
        assert!(
            bytes.starts_with(&arrived) && !arrived.is_empty(),
            "{strategy:?}"
        );
        assert_eq!(error.undelivered(), b"", "{strategy:?}");
    }
}

/// Between two reads the source is truncated, before or behind the position of the transfer, or
/// grows. The transfer moves the file as it is at each read, as any reader does.
#[test]
fn promise_1_a_source_that_changes_its_length_is_moved_as_it_is() {
    const LEN: u64 = 10 << 20;
    let bytes = pattern(2 * usize::try_from(LEN).unwrap());
    let before = usize::try_from(LEN).unwrap();
    for strategy in every_strategy().filter(|strategy| {
        // These strategies take the whole file at once, or nothing.
        !matches!(strategy, Some(Strategy::Reflink | Strategy::CopyFileRange))
    }) {
        for (new_len, what) in [
            (LEN - 12_345, "cut"),
            (1, "cut short"),
            (LEN + 54_321, "grown"),
        ] {
            let what = format!("{strategy:?}, {what}");
            let source = file(&bytes[..before]);
            let (reader, sink) = pipe();
            let reader = std::thread::spawn(move || crate::files::read_to_end(&reader));
            let mut n_steps = 0;
            let mut at_change = 0;
            let transfer = Transfer::new(&source, &sink)
                .observe(|progress| {
                    n_steps += 1;
                    if n_steps == 1 {
                        at_change = progress.bytes();
                        source.set_len(new_len).unwrap();
                        if new_len > LEN {
                            let grown = usize::try_from(new_len).unwrap();
                            source.write_all_at(&bytes[before..grown], LEN).unwrap();
                        }
                    }
                    ControlFlow::Continue(())
                })
                .maybe_strategy(strategy);
            let report = transfer.run().unwrap();
            assert_eq!(report.ended(), Ended::Eof, "{what}");
            assert_served(&report, strategy, &what);
            let offloads = [Strategy::Sendfile, Strategy::Splice];
            if strategy.is_none() && first_allowed(&offloads) != Strategy::Buffered {
                assert_ne!(report.strategy(), Some(Strategy::Buffered), "{what}");
            }
            drop(sink);
            let arrived = reader.join().unwrap();
            assert_eq!(report.bytes(), arrived.len() as u64, "{what}");
            // The private pipe or the buffer may hold bytes that were read before the file was cut.
            let in_flight = 1 << 20;
            let expected = new_len.max(at_change);
            assert!(report.bytes() >= expected, "{what}: {}", report.bytes());
            assert!(
                report.bytes() <= expected + in_flight,
                "{what}: {}",
                report.bytes()
            );
        }
    }
}

/// The same between files. The transfer moves extent by extent, which gives every strategy a second
/// step.
#[test]
fn promise_1_a_sparse_source_that_changes_its_length_is_moved_as_it_is() {
    const MIB: u64 = 1 << 20;
    let data = pattern(1 << 20);
    for strategy in every_strategy().filter(|strategy| {
        // A clone of 4 MiB is one step; the others do not serve two files.
        !matches!(
            strategy,
            Some(Strategy::Reflink | Strategy::Splice | Strategy::Sendfile)
        )
    }) {
        for new_len in [2 * MIB + 5000, MIB, 5 * MIB] {
            let what = format!("{strategy:?}, 4 MiB become {new_len} bytes");
            let Some(dir) = Fs::Tmpfs.dir() else {
                return;
            };
            let (source, sink) = (file_in(&dir, &data), file_in(&dir, b""));
            source.write_all_at(&data, 2 * MIB).unwrap();
            source.set_len(4 * MIB).unwrap();
            let mut is_first = true;
            let transfer = Transfer::new(&source, &sink)
                .observe(|progress| {
                    if is_first {
                        assert!(progress.bytes() <= MIB);
                        source.set_len(new_len).unwrap();
                        if new_len > 4 * MIB {
                            source.write_all_at(&data, 4 * MIB).unwrap();
                        }
                        is_first = false;
                    }
                    ControlFlow::Continue(())
                })
                .maybe_strategy(strategy);
            let report = transfer
                .run()
                .unwrap_or_else(|error| panic!("{what}: {error:#}"));
            assert_eq!(report.ended(), Ended::Eof, "{what}");
            assert_eq!(report.bytes(), new_len, "{what}\n{report:#}");
            let mut moved = report
                .attempts()
                .iter()
                .filter(|attempt| attempt.bytes() > 0);
            let by_name =
                strategy.is_none_or(|strategy| moved.all(|attempt| attempt.strategy() == strategy));
            assert!(by_name, "{what}\n{report:#}");
            crate::files::assert_same(&contents(&sink), &contents(&source), &what);
        }
    }
}

#[test]
fn promise_1_cursors_end_behind_the_last_byte_that_arrived() {
    let bytes = pattern(LARGE);
    for strategy in every_strategy() {
        let (Some(dir), len) = (Fs::Xfs.dir(), bytes.len() as u64) else {
            return;
        };
        let source = file_in(&dir, &bytes);
        let sink = file_in(&dir, b"");
        if matches!(strategy, Some(Strategy::Splice | Strategy::Sendfile)) {
            continue;
        }
        crate::files::set_cursor(&source, 8192);
        crate::files::set_cursor(&sink, 4096);
        let transfer = Transfer::new(&source, &sink)
            .limit(1 << 20)
            .maybe_strategy(strategy);
        let report = transfer.run().unwrap();
        assert_eq!((report.bytes(), report.ended()), (1 << 20, Ended::Limit));
        assert_served(&report, strategy, &format!("{strategy:?}"));
        assert_eq!(
            crate::files::cursor(source.as_fd()),
            8192 + (1 << 20),
            "{strategy:?}"
        );
        assert_eq!(
            crate::files::cursor(sink.as_fd()),
            4096 + (1 << 20),
            "{strategy:?}"
        );
        assert!(len > 8192 + (1 << 20));
        let expected = [&[0; 4096], &bytes[8192..8192 + (1 << 20)]].concat();
        crate::files::assert_same(&contents(&sink), &expected, "between two files");
    }
}
