//! Promise 1 under `RLIMIT_FSIZE`. The limit concerns a whole process, so a child process makes the
//! transfers.

use std::fs::File;

use rustix::io::Errno;
use zcopy::Strategy;

use crate::child_process::{Child, ChildReport};
use crate::endpoints::{SinkKind, Source, SourceKind};
use crate::files::{assert_same, contents, cursor, file_in, pattern};
use crate::mounts::Fs;
use crate::strategies::strategies_for;

/// Within a page, and within the largest step of most strategies.
const LIMIT: u64 = (1 << 20) + 1000;

#[test]
fn promise_1_a_file_size_limit_is_reached_to_the_byte() {
    let bytes = pattern(3 << 20);
    for from in [
        SourceKind::Regular(Fs::Ext4),
        SourceKind::Regular(Fs::Tmpfs),
        SourceKind::Pipe,
        SourceKind::Tcp,
    ] {
        for strategy in strategies_for(from, SinkKind::Regular(Fs::Ext4)) {
            assert_limit_reached(from, strategy, &bytes);
        }
    }
}

/// The transfer counts zeros as a hole before it learns that the sink cannot be that long. It takes
/// a bounded number of bytes back and loses none.
#[test]
fn promise_1_holes_beyond_a_file_size_limit_are_taken_back() {
    let zeros = |len| vec![0; len];
    let layouts = [
        // Only zeros; zeros at the end; data behind zeros; a hole of more than 1 MiB.
        zeros(3 << 20),
        [pattern(1 << 20), zeros(300_000)].concat(),
        [pattern(500_000), zeros(600_000), pattern(100_000)].concat(),
        [pattern(100_000), zeros(4 << 20), pattern(100_000)].concat(),
    ];
    for bytes in layouts {
        for from in [
            SourceKind::Regular(Fs::Ext4),
            SourceKind::Memfd,
            SourceKind::Pipe,
            SourceKind::Tcp,
        ] {
            let what = format!("{from:?}, {} bytes", bytes.len());
            let (Some(source), Some(dir)) = (Source::new(from, &bytes), Fs::Ext4.dir()) else {
                return;
            };
            let sink = file_in(&dir, b"");
            let child = Child::that_ignores_xfsz().that_detects_holes();
            let report = run_limited(child, &source, &sink, &what);
            assert!(report.bytes <= LIMIT, "{what}: {report:?}");
            assert_eq!(cursor(&sink), report.bytes, "{what}");
            // The holes that were counted too early, and a buffer.
            let most = (1 << 20) + (512 << 10);
            assert!(report.undelivered.len() <= most, "{what}");
            if let Some(cursor) = source.cursor() {
                assert_eq!(cursor, report.bytes, "{what}");
            }
            let arrived = contents(&sink);
            assert_eq!(arrived.len() as u64, report.bytes, "{what}");
            let all = [&arrived[..], &report.undelivered, &source.into_rest()].concat();
            assert_same(&all, &bytes, &what);
        }
    }
}

/// Runs a child that may write files of [`LIMIT`] bytes. Its transfer fails with `EFBIG`.
fn run_limited(child: Child, source: &Source, sink: &File, what: &str) -> ChildReport {
    let source = source.fd.try_clone().unwrap();
    let sink = sink.try_clone().unwrap().into();
    let report = child.file_size(LIMIT).run(source, sink).unwrap();
    let expected = Err(("sink".to_owned(), Errno::FBIG.raw_os_error()));
    assert_eq!(report.outcome, expected, "{what}: {report:?}");
    report
}

/// Moves these bytes to a file on ext4 that may not become that long.
fn assert_limit_reached(from: SourceKind, strategy: Option<Strategy>, bytes: &[u8]) {
    let what = format!("{from:?}, {strategy:?}");
    let (Some(source), Some(dir)) = (Source::new(from, bytes), Fs::Ext4.dir()) else {
        return;
    };
    let sink = file_in(&dir, b"");
    let child = Child::that_ignores_xfsz().strategy(strategy);
    let report = run_limited(child, &source, &sink, &what);
    assert_eq!(report.bytes, LIMIT, "{what}");
    if let Some(strategy) = strategy {
        assert_eq!(report.strategy, strategy.to_string(), "{what}");
    }
    let arrived = contents(&sink);
    assert_eq!(arrived.len() as u64, LIMIT, "{what}");
    if let Some(cursor) = source.cursor() {
        assert_eq!(cursor, LIMIT, "{what}");
    }
    let all = [&arrived[..], &report.undelivered, &source.into_rest()].concat();
    assert_same(&all, bytes, &what);
}
