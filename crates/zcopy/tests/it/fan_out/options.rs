//! The options of a transfer to several sinks, and the options that it refuses.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;
use rustix::pipe::fcntl_setpipe_size;
use zcopy::{Cache, Ended, FanOut, OnSinkError, Reflink, Side, Sparse, Strategy, Transfer};

use super::{Kind, TestSink, strategies_of, to_all};
use crate::cache::cached;
use crate::endpoints::{Source, SourceKind, null, pipe};
use crate::files::{
    appending, assert_same, contents, cursor, file_in, pattern, read_to_end, reopen,
};
use crate::mounts::Fs;
use crate::refused::{allowed, is_refused, needs};
use crate::skip::has_program;
use crate::strategies::can_be_spliced;

const LEN: usize = (1 << 20) + 7;
const SOURCES: [SourceKind; 3] = [
    SourceKind::Pipe,
    SourceKind::Regular(Fs::Ext4),
    SourceKind::UnixStream,
];
/// A set without, and one with, a sink that must be written to.
const SETS: [[Kind; 3]; 2] = [
    [Kind::Pipe, Kind::File, Kind::TinySocket],
    [Kind::Append, Kind::OneSlot, Kind::Tcp],
];

/// Moves bytes to each set by a transfer that `configure` changes, and asserts which bytes arrive,
/// and by which strategy if one is given.
fn assert_moves(
    bytes: &[u8],
    expected: &[u8],
    strategy: Option<Strategy>,
    configure: impl Fn(FanOut<'_>) -> FanOut<'_>,
) {
    for from in SOURCES {
        for kinds in SETS {
            let what = format!("{from:?} to {kinds:?}");
            let test_sinks: Option<Vec<_>> = kinds.into_iter().map(TestSink::new).collect();
            let (Some(source), Some(test_sinks)) = (Source::new(from, bytes), test_sinks) else {
                return;
            };
            let fds: Vec<_> = test_sinks.iter().map(TestSink::fd).collect();
            let report = configure(to_all(&source.fd, &fds)).run().unwrap();
            assert_eq!(report.bytes(), expected.len() as u64, "{what}: {report:#}");
            if let Some(strategy) = strategy {
                assert_eq!(report.strategy(), Some(strategy), "{what}: {report:#}");
                let mut found = strategies_of(report.sinks());
                found.retain(|strategy| *strategy == Strategy::Buffered);
                // Only `Append` must be written to.
                let n_written = match (strategy, kinds[0]) {
                    (Strategy::Buffered, _) => 3,
                    (_, Kind::Append) => 1,
                    _ => 0,
                };
                assert_eq!(found.len(), n_written, "{what}: {report:#}");
            }
            let rest = &bytes[expected.len()..];
            assert_same(&source.into_rest(), rest, &format!("{what}: the rest"));
            for test_sink in test_sinks {
                let arrived = test_sink.into_bytes(expected.len() as u64).unwrap();
                assert_same(&arrived, expected, &what);
            }
        }
    }
}

#[test]
fn a_limit_leaves_the_rest_in_the_source() {
    let bytes = pattern(LEN);
    for limit in [0, 1, 40_000, 100_001, LEN - 1] {
        assert_moves(&bytes, &bytes[..limit], None, |fan_out| {
            fan_out.limit(limit as u64)
        });
    }
    let limit = 500_000;
    for strategy in allowed([Strategy::Tee, Strategy::Buffered]) {
        assert_moves(&bytes, &bytes[..limit], Some(strategy), |fan_out| {
            fan_out.strategy(strategy).limit(limit as u64)
        });
    }
}

#[test]
fn a_rate_limit_loses_nothing() {
    let bytes = pattern(300_000);
    assert_moves(&bytes, &bytes, None, |fan_out| fan_out.rate_limit(4 << 20));
}

#[test]
fn requested_strategies_are_used() {
    let bytes = pattern(LEN);
    for strategy in allowed([Strategy::Tee, Strategy::Buffered]) {
        assert_moves(&bytes, &bytes, Some(strategy), |fan_out| {
            fan_out.strategy(strategy)
        });
    }
}

#[test]
fn inspect_sees_every_byte_once() {
    let bytes = pattern(LEN);
    for from in SOURCES {
        for kinds in SETS {
            let mut seen = Vec::new();
            let test_sinks: Vec<_> = kinds.into_iter().filter_map(TestSink::new).collect();
            let fds: Vec<_> = test_sinks.iter().map(TestSink::fd).collect();
            let Some(source) = Source::new(from, &bytes) else {
                return;
            };
            let report = to_all(&source.fd, &fds)
                .inspect(|piece| seen.extend_from_slice(piece))
                .run()
                .unwrap();
            assert_eq!(
                strategies_of(report.sinks()),
                [Strategy::Buffered; 3],
                "{from:?}"
            );
            assert_same(&seen, &bytes, "what was seen");
            for test_sink in test_sinks {
                assert_same(
                    &test_sink.into_bytes(LEN as u64).unwrap(),
                    &bytes,
                    "what arrived",
                );
            }
        }
    }
}

#[test]
fn offsets_move_no_cursor_and_the_sink_offset_is_that_of_the_first_sink() {
    let Some(dir) = Fs::Ext4.dir() else { return };
    let bytes = pattern(LEN);
    let files = || (file_in(&dir, b"before"), file_in(&dir, b"before"));
    for strategy in allowed([Strategy::Tee, Strategy::Buffered]) {
        let source: OwnedFd = file_in(&dir, &bytes).into();
        let (first, second) = files();
        let (to_first, to_second) = (
            reopen(&first, OFlags::WRONLY),
            reopen(&second, OFlags::WRONLY),
        );
        let report = to_all(&source, &[&to_first, &to_second])
            .source_offset(1001)
            .sink_offset(3)
            .limit(700_000)
            .strategy(strategy)
            .run()
            .unwrap();
        assert_eq!((report.bytes(), report.ended()), (700_000, Ended::Limit));
        let cursors = [&source, &to_first, &to_second].map(cursor);
        assert_eq!(cursors, [0, 0, 700_000], "{strategy}");
        let moved = &bytes[1001..701_001];
        assert_same(&contents(&first), &[b"bef", moved].concat(), "the first");
        assert_same(&contents(&second), moved, "the second");
    }
}

/// The file is overwritten when the transfer is over, before anybody reads from the pipes.
#[test]
fn stable_bytes_do_not_change_in_the_pipe() {
    const LEN: usize = 60 << 10;
    for fs in [Fs::Ext4, Fs::Tmpfs] {
        let Some(dir) = fs.dir() else { return };
        let (old, new) = (pattern(LEN), vec![7; LEN]);
        for stable in [false, true] {
            let what = format!("{fs:?}, {stable}");
            let file = file_in(&dir, &old);
            let source: OwnedFd = reopen(&file, OFlags::RDONLY);
            let pipes: Vec<_> = (0..3).map(|_| pipe()).collect();
            let log = file_in(&dir, b"");
            let log_fd: OwnedFd = reopen(&log, OFlags::WRONLY);
            let mut fds: Vec<_> = pipes.iter().map(|(_, writer)| writer).collect();
            fds.push(&log_fd);
            for (_, writer) in &pipes {
                fcntl_setpipe_size(writer, 1 << 20).unwrap();
            }
            let transfer = to_all(&source, &fds).stable(stable);
            assert_eq!(transfer.plan().unwrap().shares_pages(), !stable, "{what}");
            let report = transfer.run().unwrap();
            let is_copied = stable || is_refused(Strategy::Tee);
            assert_eq!(report.shared_pages(), !is_copied, "{what}: {report:#}");
            file.write_all_at(&new, 0).unwrap();
            let expected = if is_copied { &old } else { &new };
            for (reader, writer) in pipes {
                drop(writer);
                assert_same(&read_to_end(&reader), expected, &what);
            }
            // Bytes that have been copied into a file cannot change.
            assert_same(&contents(&log), &old, &what);
        }
    }
}

#[test]
fn drop_behind_leaves_no_pages() {
    // Whole pages: `fincore` does not count a partial last page.
    const LEN: usize = (12 << 20) + (12 << 10);
    let (true, Some(dir)) = (has_program("fincore"), Fs::Ext4.dir()) else {
        return;
    };
    let bytes = pattern(LEN);
    for strategy in allowed([Strategy::Tee, Strategy::Buffered]) {
        let source = file_in(&dir, &bytes);
        source.sync_all().unwrap();
        let files: [File; 3] = std::array::from_fn(|_| file_in(&dir, b""));
        let sinks = [
            reopen(&files[0], OFlags::WRONLY),
            appending(&files[1]),
            reopen(&files[2], OFlags::WRONLY),
        ];
        let from = reopen(&source, OFlags::RDONLY);
        let sinks: Vec<_> = sinks.iter().collect();
        let report = to_all(&from, &sinks)
            .cache(Cache::DropBehind)
            .strategy(strategy)
            .run()
            .unwrap();
        assert_eq!(
            (report.bytes(), report.strategy()),
            (LEN as u64, Some(strategy))
        );
        assert_eq!(cached(&source), 0, "{strategy}: the source");
        for file in &files {
            assert_eq!(cached(file), 0, "{strategy}: a sink");
            assert_same(&contents(file), &bytes, "read back from the disk");
        }
    }
}

#[test]
fn options_for_a_single_sink_are_refused() {
    let Some(dir) = Fs::Ext4.dir() else { return };
    let source: OwnedFd = file_in(&dir, &pattern(100_000)).into();
    let (null, other) = (null(), null());
    let fan_out = || to_all(&source, &[&null, &other]);
    for strategy in [
        Strategy::Reflink,
        Strategy::CopyFileRange,
        Strategy::Sendfile,
        Strategy::Splice,
        Strategy::SplicePipe,
    ] {
        let error = fan_out().strategy(strategy).run().unwrap_err();
        assert!(error.is_unsuitable(), "{strategy}: {error:#}");
    }
    let to_one = || Transfer::new(&source, &null);
    for error in [
        to_one().reflink(Reflink::Always).also_to(&other).run(),
        to_one().strategy(Strategy::Sendfile).also_to(&other).run(),
    ] {
        let error = error.unwrap_err();
        assert!(error.is_unsuitable(), "{error:#}");
    }
    let error = to_one().sparse(Sparse::Detect).also_to(&other).run();
    let error = error.unwrap_err();
    assert!(error.is_refused(), "{error:#}");
    assert_eq!(cursor(&source), 0, "nothing has moved");
}

#[test]
fn tee_is_refused_where_nothing_can_be_shared() {
    let (null, other) = (null(), null());
    let sinks = [&null, &other];
    let (messages, _feed) = crate::endpoints::unix(rustix::net::SocketType::DGRAM);
    let requested = |source, sinks: &[_]| to_all(source, sinks).strategy(Strategy::Tee).run();
    assert!(requested(&messages, &sinks).unwrap_err().is_unsuitable());

    let zeros: OwnedFd = File::open("/dev/zero").unwrap().into();
    let transfer = to_all(&zeros, &sinks).limit(1).strategy(Strategy::Tee);
    let error = transfer.inspect(|_| ()).run().unwrap_err();
    assert!(error.is_unsuitable(), "{error:#}");

    let full = super::full();
    let error = requested(&zeros, &[&full, &full]).unwrap_err();
    assert!(error.is_unsuitable(), "{error:#}");
}

/// A requested strategy is used even if read and write would be faster.
#[test]
fn a_requested_tee_is_used_for_few_bytes() {
    if !needs(&[Strategy::Tee]) {
        return;
    }
    for from in [
        SourceKind::Memfd,
        SourceKind::Pipe,
        SourceKind::Zero,
        SourceKind::ProcVersion,
    ]
    .into_iter()
    .filter(|from| can_be_spliced(*from))
    {
        let bytes = match from {
            SourceKind::Zero => vec![0; 1000],
            SourceKind::ProcVersion => std::fs::read("/proc/version").unwrap(),
            _ => pattern(1000),
        };
        let kinds = [Kind::Pipe, Kind::File, Kind::TinySocket];
        let test_sinks = kinds.map(|kind| TestSink::new(kind).unwrap());
        let source = Source::new(from, &bytes).unwrap();
        let fds: Vec<_> = test_sinks.iter().map(TestSink::fd).collect();
        let transfer = to_all(&source.fd, &fds).strategy(Strategy::Tee);
        let report = match from {
            SourceKind::ProcVersion => transfer.run().unwrap(),
            _ => transfer.limit(1000).run().unwrap(),
        };
        assert_eq!(
            report.strategy(),
            Some(Strategy::Tee),
            "{from:?}\n{report:#}"
        );
        let expected = [Strategy::Tee, Strategy::SplicePipe, Strategy::Splice];
        assert_eq!(
            strategies_of(report.sinks()),
            expected,
            "{from:?}\n{report:#}"
        );
        for test_sink in test_sinks {
            let arrived = test_sink.into_bytes(bytes.len() as u64).unwrap();
            assert_same(&arrived, &bytes, "short");
        }
    }
}

#[test]
fn a_sink_that_is_the_source_is_refused_at_every_index() {
    let (reader, writer) = pipe();
    let null = null();
    rustix::io::write(&writer, b"hello").unwrap();
    let orders = [
        [&writer, &null, &null],
        [&null, &writer, &null],
        [&null, &null, &writer],
    ];
    for sinks in orders {
        for policy in [OnSinkError::Stop, OnSinkError::Detach] {
            let error = to_all(&reader, &sinks)
                .on_sink_error(policy)
                .run()
                .unwrap_err();
            assert!(error.is_refused(), "{error:#}");
            assert_eq!(error.bytes(), 0);
        }
    }
    drop(writer);
    assert_eq!(read_to_end(&reader), b"hello", "nothing was taken");
}

#[test]
fn a_further_sink_that_cannot_be_written_to_is_refused() {
    let (reader, _writer) = pipe();
    let null = null();
    let unwritable: OwnedFd = File::open("/dev/null").unwrap().into();
    let error = to_all(&reader, &[&null, &unwritable]).run().unwrap_err();
    assert!(error.is_refused(), "{error:#}");
    assert_eq!(error.side(), Side::Sink);
}
