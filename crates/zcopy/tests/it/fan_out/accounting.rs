//! Whatever ends a transfer to several sinks, the bytes in the sinks, the bytes handed back and the
//! rest of the source add up.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use zcopy::{Ended, OnSinkError, Report, Side, Strategy, Transfer};

use super::{Kind, TestSink, strategies_of, to_all, unless_refused};
use crate::endpoints::{Source, SourceKind, full, null, pipe};
use crate::every_pair::LARGE;
use crate::files::{assert_same, contents, file, pattern, reopen};
use crate::mounts::Fs;
use crate::own_process::is_own_process;
use crate::refused::{first_allowed, is_allowed};

/// A source that is rewound, one that keeps bytes that are only shared, and two whose bytes are
/// handed back.
const SOURCES: [SourceKind; 4] = [
    SourceKind::Regular(Fs::Ext4),
    SourceKind::Pipe,
    SourceKind::UnixStream,
    SourceKind::Tcp,
];

/// Asserts that the bytes that some sink lacks are handed back or still in the source, once and in
/// order.
#[track_caller]
fn assert_rest(report: &Report, source: Source, bytes: &[u8], what: &str) {
    let n = usize::try_from(report.bytes()).unwrap();
    if let Some(cursor) = source.cursor() {
        assert_eq!(cursor, report.bytes(), "{what}");
        assert_eq!(report.undelivered(), b"", "{what}: a file is rewound");
    }
    let rest = [report.undelivered(), &source.into_rest()].concat();
    assert_same(&rest, &bytes[n..], what);
}

#[test]
fn a_break_after_any_step_leaves_everything_accounted_for() {
    let bytes = pattern(LARGE);
    for from in SOURCES {
        for kinds in [
            [Kind::Pipe, Kind::Tmpfs, Kind::SlowPipe, Kind::Tcp],
            [Kind::Append, Kind::OneSlot, Kind::TinySocket, Kind::File],
        ] {
            for (steps, ticks) in [(1, false), (2, false), (1, true), (3, true)] {
                let what = format!("{from:?} to {kinds:?}, {steps}, {ticks}");
                let test_sinks: Option<Vec<_>> = kinds.into_iter().map(TestSink::new).collect();
                let (Some(source), Some(test_sinks)) = (Source::new(from, &bytes), test_sinks)
                else {
                    continue;
                };
                let fds: Vec<_> = test_sinks.iter().map(TestSink::fd).collect();
                let mut seen = Vec::new();
                let transfer = to_all(&source.fd, &fds).observe(|progress| {
                    seen.push(progress.bytes());
                    if seen.len() < steps {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                });
                let transfer = if ticks {
                    transfer.tick(Duration::from_millis(1))
                } else {
                    transfer
                };
                let report = transfer.run().unwrap();
                let what = format!("{what}\n{report:#}");
                assert_eq!(report.ended(), Ended::Stopped, "{what}");
                assert!(seen.is_sorted() && seen.len() == steps, "{what}");
                assert_eq!(seen.last(), Some(&report.bytes()), "{what}");
                for (test_sink, sink_report) in test_sinks.into_iter().zip(report.sinks()) {
                    assert!(sink_report.bytes() >= report.bytes(), "{what}");
                    let n = usize::try_from(sink_report.bytes()).unwrap();
                    let arrived = test_sink.into_bytes(sink_report.bytes()).unwrap();
                    assert_same(&arrived, &bytes[..n], &what);
                }
                assert_rest(&report, source, &bytes, &what);
            }
        }
    }
}

/// The caller decides about each failure once, when it happens.
#[test]
fn each_failure_is_decided_for_itself() {
    let bytes = pattern(LARGE);
    for from in SOURCES {
        let Some(source) = Source::new(from, &bytes) else {
            continue;
        };
        let (reader, closed) = pipe();
        drop(reader);
        // A child process that another test is starting may hold the reader a little longer.
        let mut gone = [PollFd::new(&closed, PollFlags::empty())];
        assert_eq!(poll(&mut gone, None), Ok(1));
        let (full, kept) = (full(), file(b""));
        let mut decided = Vec::new();
        let error = Transfer::new(&source.fd, &closed)
            .also_to(&kept)
            .also_to(&full)
            .on_sink_error_with(|sink| {
                let kind = sink.error().unwrap().kind();
                decided.push((sink.index(), sink.bytes(), kind));
                match kind {
                    ErrorKind::BrokenPipe => OnSinkError::Detach,
                    _ => OnSinkError::Stop,
                }
            })
            .run()
            .unwrap_err();
        let what = format!("{from:?}: {error:#}\n{:#}", error.report());
        assert_eq!(error.side(), Side::Sink, "{what}");
        assert_eq!(
            (error.io_error_kind(), error.bytes()),
            (ErrorKind::StorageFull, 0)
        );
        let expected = [
            (0, 0, ErrorKind::BrokenPipe),
            (2, 0, ErrorKind::StorageFull),
        ];
        assert_eq!(decided, expected, "{what}");
        let n = usize::try_from(error.report().sinks()[1].bytes()).unwrap();
        assert_same(&contents(&kept), &bytes[..n], &what);
        assert_rest(error.report(), source, &bytes, &what);
    }
}

/// The inspector has not seen bytes that only some sinks have.
#[test]
fn inspect_has_seen_the_bytes_counted_when_a_sink_fails() {
    let bytes = pattern(LARGE);
    for (decision, expected) in [(OnSinkError::Stop, 0), (OnSinkError::Detach, LARGE)] {
        let source = Source::new(SourceKind::Pipe, &bytes).unwrap();
        let (kept, full) = (file(b""), full());
        let mut seen = Vec::new();
        let transfer = Transfer::new(&source.fd, &kept).also_to(&full);
        let outcome = transfer
            .on_sink_error(decision)
            .inspect(|bytes| seen.extend_from_slice(bytes))
            .run();
        let report = match &outcome {
            Ok(report) => report,
            Err(error) => error.report(),
        };
        assert_eq!(report.bytes(), expected as u64, "{report:#}");
        assert!(report.sinks()[0].bytes() > 0, "{report:#}");
        assert_same(&seen, &bytes[..expected], "inspected");
    }
}

/// A sink is full, and the transfer waits for it with all bytes that it still lacks. Then its
/// reader closes.
#[test]
fn a_watched_reader_that_closes_ends_the_wait_for_its_sink() {
    let bytes = pattern(200_000);
    for (from, strategy) in [
        (SourceKind::Memfd, None),
        (SourceKind::Memfd, Some(Strategy::Buffered)),
        (SourceKind::Pipe, None),
        (SourceKind::Pipe, Some(Strategy::Buffered)),
        // By tee the bytes would lie in slots of 32 KiB, and fit.
        (SourceKind::UnixStream, Some(Strategy::Buffered)),
    ] {
        for also in [Kind::Null, Kind::AppendedNull] {
            let source = Source::new(from, &bytes).unwrap();
            let (reader, sink) = pipe();
            let mut reader = Some(reader);
            let mut n_waits = 0;
            let (kept, also) = (file(b""), TestSink::new(also).unwrap());
            let keeping = reopen(&kept, OFlags::WRONLY);
            let transfer = to_all(&source.fd, &[&keeping, &sink, also.fd()])
                .grow_pipes(false)
                .watch_readers(true)
                .on_sink_error(OnSinkError::Detach)
                .tick(Duration::from_millis(1))
                .observe(|progress| {
                    if progress.blocked() == Some(Side::Sink) {
                        n_waits += 1;
                        reader.take();
                    }
                    ControlFlow::Continue(())
                });
            let report = match strategy {
                Some(strategy) => transfer.strategy(strategy).run().unwrap(),
                None => transfer.run().unwrap(),
            };
            let what = format!("{from:?}, {strategy:?}\n{report:#}");
            assert_eq!(
                (report.bytes(), report.ended()),
                (200_000, Ended::Eof),
                "{what}"
            );
            assert!(n_waits > 0, "{what}");
            let kind = report.sinks()[1].error().map(|error| error.kind());
            assert_eq!(kind, Some(ErrorKind::BrokenPipe), "{what}");
            assert_same(&contents(&kept), &bytes, &what);
        }
    }
}

/// Each descriptor has its own cursor, so that all write the same bytes to the same offsets.
#[test]
fn the_same_file_named_several_times_holds_the_bytes_once() {
    let bytes = pattern(LARGE);
    for from in SOURCES {
        let (Some(source), sink) = (Source::new(from, &bytes), file(b"")) else {
            continue;
        };
        let names = [(); 3].map(|()| reopen(&sink, OFlags::WRONLY));
        let report = to_all(&source.fd, &names.each_ref()).run().unwrap();
        let expected = [Strategy::SplicePipe, Strategy::SplicePipe, Strategy::Splice];
        let expected = unless_refused(expected);
        assert_eq!(
            strategies_of(report.sinks()),
            expected,
            "{from:?}\n{report:#}"
        );
        assert_same(&contents(&sink), &bytes, &format!("{from:?}"));
    }
}

/// Other tests open descriptors at the same time, so the test runs in its own process.
#[test]
fn no_more_pipes_are_open_than_there_are_sinks() {
    if !is_own_process(
        "fan_out::accounting::no_more_pipes_are_open_than_there_are_sinks",
        |_| (),
    ) {
        return;
    }
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    for from in ["a pipe", "a file"] {
        for n_sinks in [2, 5, 14] {
            let (reader, writer) = pipe();
            let is_fed = from == "a pipe";
            let source: std::os::fd::OwnedFd = if is_fed {
                reader
            } else {
                file(&pattern(LARGE)).into()
            };
            // The feeder closes the writing end after the last byte.
            let feeder = is_fed.then(|| {
                let writer = writer.try_clone().unwrap();
                std::thread::spawn(move || crate::files::write_all(&writer, &pattern(LARGE)))
            });
            let nulls: Vec<_> = (0..n_sinks).map(|_| null()).collect();
            let before = open();
            let mut most = 0;
            let transfer = to_all(&source, &nulls.iter().collect::<Vec<_>>());
            let report = transfer
                .limit(LARGE as u64)
                .observe(|_| {
                    most = most.max(open());
                    ControlFlow::Continue(())
                })
                .run()
                .unwrap();
            assert_eq!(
                report.strategy(),
                Some(first_allowed(&[Strategy::Tee])),
                "{report:#}"
            );
            // Each sink but the one that consumes the bytes has a pipe, and one pipe holds the
            // bytes of the source.
            let allowed = before + 2 * n_sinks;
            assert!(most <= allowed, "{from}: {most} of {allowed}");
            if is_allowed(Strategy::Tee) {
                assert!(most > before, "{from}");
            }
            drop(feeder.map(std::thread::JoinHandle::join));
            drop(writer);
            assert!(open() <= before, "{from}: some stay open");
        }
    }
}
