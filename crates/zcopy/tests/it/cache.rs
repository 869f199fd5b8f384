//! `Cache::DropBehind` leaves no pages of source and sink.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use zcopy::{Cache, Ended, Strategy, Transfer};

use crate::endpoints::{Sink, SinkKind, SourceKind};
use crate::files::{assert_same, contents, file_in, pattern};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::refused::first_allowed;
use crate::skip::has_program;
use crate::strategies::{assert_served, strategies_for};

/// Whole pages: `fincore` does not count a partial last page.
const LEN: usize = (32 << 20) + (12 << 10);

/// Bytes of a file that are in the page cache.
pub(crate) fn cached(file: &File) -> u64 {
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let fincore = Command::new("fincore")
        .args(["--bytes", "--noheadings", "--output", "RES", &path])
        .output()
        .unwrap();
    let stdout = String::from_utf8(fincore.stdout).unwrap();
    stdout.trim().parse().unwrap()
}

/// A file whose pages are in the page cache.
fn warm_file_in(dir: &Path, bytes: &[u8]) -> File {
    let file = file_in(dir, bytes);
    // Dirty pages cannot be dropped, so write them back before the transfer.
    file.sync_all().unwrap();
    let is_warm = (0..100).any(|_| {
        contents(&file);
        is_cached(&file)
    });
    assert!(is_warm, "no file stays in the cache");
    file
}

/// Whether most of a file is in the page cache. The kernel may reclaim pages at any time.
fn is_cached(file: &File) -> bool {
    cached(file) >= file.metadata().unwrap().len() / 2
}

#[test]
fn drop_behind_leaves_no_pages_by_any_strategy() {
    let (true, Some(dir)) = (has_program("fincore"), Fs::Ext4.dir()) else {
        return;
    };
    let bytes = pattern(LEN);
    let ext4 = Fs::Ext4;
    for strategy in strategies_for(SourceKind::Regular(ext4), SinkKind::Regular(ext4)) {
        let source = warm_file_in(&dir, &bytes);
        let sink = file_in(&dir, b"");
        let transfer = Transfer::new(&source, &sink)
            .cache(Cache::DropBehind)
            .maybe_strategy(strategy);
        let report = transfer.run().unwrap();
        assert_eq!((report.bytes(), report.ended()), (LEN as u64, Ended::Eof));
        assert_served(&report, strategy, &format!("{strategy:?}"));
        assert_eq!((cached(&source), cached(&sink)), (0, 0), "{strategy:?}");
        assert_same(&contents(&sink), &bytes, "read back from the disk");
    }
}

#[test]
fn drop_behind_works_by_offsets_and_into_pipes() {
    let (true, Some(dir)) = (has_program("fincore"), Fs::Ext4.dir()) else {
        return;
    };
    let bytes = pattern(LEN);
    let source = file_in(&dir, &bytes);
    source.sync_all().unwrap();
    let sink = file_in(&dir, b"");
    let report = Transfer::new(&source, &sink)
        .source_offset(0)
        .sink_offset(0)
        .cache(Cache::DropBehind)
        .run()
        .unwrap();
    assert_eq!(report.bytes(), LEN as u64);
    let offloads = [Strategy::SplicePipe, Strategy::CopyFileRange];
    assert_eq!(report.strategy(), Some(first_allowed(&offloads)));
    assert_eq!((cached(&source), cached(&sink)), (0, 0));

    let pipe = Sink::new(SinkKind::Pipe).unwrap();
    let transfer = Transfer::new(&source, &pipe.fd).source_offset(0);
    let report = transfer.cache(Cache::DropBehind).run().unwrap();
    assert_eq!(report.bytes(), LEN as u64);
    // Pages that the pipe still held at the end stay until they are read.
    assert!(cached(&source) <= 4 << 20, "{}", cached(&source));
    assert_same(&pipe.into_bytes(0).unwrap(), &bytes, "a pipe");
}

#[test]
fn drop_behind_works_for_a_sink_that_appends() {
    let (true, Some(dir)) = (has_program("fincore"), Fs::Ext4.dir()) else {
        return;
    };
    let bytes = pattern(LEN);
    let source = file_in(&dir, &bytes);
    source.sync_all().unwrap();
    let sink = file_in(&dir, &bytes);
    sink.sync_all().unwrap();
    let flags = rustix::fs::fcntl_getfl(&sink).unwrap();
    rustix::fs::fcntl_setfl(&sink, flags | rustix::fs::OFlags::APPEND).unwrap();
    let report = Transfer::new(&source, &sink)
        .cache(Cache::DropBehind)
        .run()
        .unwrap();
    assert_eq!((report.bytes(), report.ended()), (LEN as u64, Ended::Eof));
    // The pages of the old bytes are not part of the transfer, which may drop them or not.
    assert_eq!(cached(&source), 0);
    assert!(cached(&sink) <= LEN as u64);
}

#[test]
fn keep_leaves_both_files_in_the_cache() {
    let (true, Some(dir)) = (has_program("fincore"), Fs::Ext4.dir()) else {
        return;
    };
    // The kernel may reclaim pages during one transfer, so try several.
    let keeps_pages = || {
        let source = warm_file_in(&dir, &pattern(LEN));
        let sink = file_in(&dir, b"");
        let report = Transfer::new(&source, &sink).run().unwrap();
        assert_eq!(report.bytes(), LEN as u64);
        assert_eq!(
            report.strategy(),
            Some(first_allowed(&[Strategy::SplicePipe]))
        );
        is_cached(&source) && is_cached(&sink)
    };
    assert!((0..10).any(|_| keeps_pages()), "no pages stay in the cache");
}

/// The pages are dropped if the transfer fails, is stopped or reaches its limit, and so are the 8
/// MiB that the kernel reads ahead. These pages are cached before the transfer: read-ahead from a
/// disk cannot be stopped, so a cold cache would prove nothing.
#[test]
fn drop_behind_leaves_no_pages_of_a_transfer_that_did_not_reach_the_end() {
    let (true, Some(dir)) = (has_program("fincore"), Fs::Ext4.dir()) else {
        return;
    };
    let Some(small) = crate::mounts::mount_tmpfs(8) else {
        return;
    };
    for strategy in [None, Some(Strategy::Buffered)] {
        for end in [Ended::Failed, Ended::Limit, Ended::Stopped] {
            let source = warm_file_in(&dir, &pattern(LEN));
            let sink = match end {
                Ended::Failed => file_in(&small.dir(), b""),
                _ => file_in(&dir, b""),
            };
            let mut transfer = Transfer::new(&source, &sink)
                .cache(Cache::DropBehind)
                .maybe_strategy(strategy);
            match end {
                Ended::Limit => transfer = transfer.limit(9 << 20),
                Ended::Stopped => {
                    transfer = transfer.observe(|progress| match progress.bytes() {
                        0..9_000_000 => std::ops::ControlFlow::Continue(()),
                        _ => std::ops::ControlFlow::Break(()),
                    });
                }
                _ => {}
            }
            let report = transfer.run().unwrap_or_else(zcopy::Error::into_report);
            assert_eq!(report.ended(), end, "{report:#}");
            // Count the pages that are left, not those that went: the kernel may have reclaimed
            // some before. It drops folios of up to 2 MiB, of which one may lie across the end.
            let dropped = report.bytes() + (8 << 20) - (2 << 20);
            let (left, most) = (cached(&source), LEN as u64 - dropped);
            assert!(
                left <= most,
                "{strategy:?}, {end:?}: {left} left\n{report:#}"
            );
            if end != Ended::Failed {
                assert_eq!(cached(&sink), 0, "{strategy:?}, {end:?}: {report:#}");
            }
        }
    }
}
