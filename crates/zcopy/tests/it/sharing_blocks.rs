//! Files that come to share their blocks.

use std::fs::File;
use std::process::Command;

use zcopy::{Ended, Reflink, Strategy, Transfer};

use crate::files::{assert_same, contents, cursor, file_in, pattern, set_cursor};
use crate::mounts::Fs;
use crate::skip::has_program;

const CLONING: [Fs; 2] = [Fs::Btrfs, Fs::Xfs];
const LEN: usize = (3 << 20) + 7;

/// Extents of a file, and how many of them the file system says are shared.
fn extents(file: &File) -> Option<(usize, usize)> {
    if !has_program("filefrag") {
        return None;
    }
    file.sync_all().unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(file);
    let path = format!("/proc/{}/fd/{fd}", std::process::id());
    let filefrag = Command::new("filefrag")
        .args(["-v", &path])
        .output()
        .unwrap();
    let said = String::from_utf8(filefrag.stdout).unwrap();
    let lines = said.lines().filter(|line| line.contains(".."));
    let shared = lines.clone().filter(|line| line.contains("shared"));
    Some((lines.count(), shared.count()))
}

#[track_caller]
fn assert_shares(file: &File, shares: bool, what: &str) {
    if let Some((extents, shared)) = extents(file) {
        assert!(extents > 0, "{what}");
        assert_eq!(
            shared,
            if shares { extents } else { 0 },
            "{what}: {extents} extents"
        );
    }
}

#[test]
fn always_and_auto_share_a_whole_file_and_never_does_not() {
    let bytes = pattern(LEN);
    for fs in CLONING {
        for reflink in [Reflink::Auto, Reflink::Always, Reflink::Never] {
            let Some(dir) = fs.dir() else {
                continue;
            };
            let what = format!("{fs:?}, {reflink:?}");
            let (source, sink) = (file_in(&dir, &bytes), file_in(&dir, b""));
            let report = Transfer::new(&source, &sink)
                .reflink(reflink)
                .run()
                .unwrap();
            assert_eq!((report.bytes(), report.ended()), (LEN as u64, Ended::Eof));
            let shares = reflink != Reflink::Never;
            assert_eq!(
                report.strategy() == Strategy::Reflink,
                shares,
                "{what}\n{report}"
            );
            assert_ne!(report.strategy(), Strategy::CopyFileRange, "{what}");
            assert_eq!((cursor(&source), cursor(&sink)), (LEN as u64, LEN as u64));
            assert_same(&contents(&sink), &bytes, &what);
            assert_shares(&sink, shares, &what);
        }
    }
}

/// `FICLONERANGE`: from the middle of one file to the middle of another.
#[test]
fn a_range_of_whole_blocks_is_shared() {
    let bytes = pattern(LEN);
    let (from, to, len) = (1 << 20, 64 << 10, 512 << 10);
    for fs in CLONING {
        for by_cursor in [false, true] {
            let Some(dir) = fs.dir() else {
                continue;
            };
            let (source, sink) = (file_in(&dir, &bytes), file_in(&dir, b""));
            let mut transfer = Transfer::new(&source, &sink).limit(len);
            if by_cursor {
                set_cursor(&source, from);
                set_cursor(&sink, to);
            } else {
                transfer = transfer.source_offset(from).sink_offset(to);
            }
            let report = transfer.reflink(Reflink::Always).run().unwrap();
            assert_eq!((report.bytes(), report.ended()), (len, Ended::Limit));
            assert_eq!(report.strategy(), Strategy::Reflink);
            let cursors = if by_cursor {
                (from + len, to + len)
            } else {
                (0, 0)
            };
            assert_eq!((cursor(&source), cursor(&sink)), cursors, "{fs:?}");
            let [from, to, len] = [from, to, len].map(|n| usize::try_from(n).unwrap());
            let expected = [&vec![0; to], &bytes[from..from + len]].concat();
            assert_same(&contents(&sink), &expected, "a range");
            assert_shares(&sink, true, "a range");
        }
    }
}

/// The last range of a file may end in the middle of a block.
#[test]
fn a_range_to_the_end_is_shared_with_its_tail() {
    let bytes = pattern(LEN);
    for fs in CLONING {
        let Some(dir) = fs.dir() else {
            continue;
        };
        let (source, sink) = (file_in(&dir, &bytes), file_in(&dir, b""));
        let transfer = Transfer::new(&source, &sink).source_offset(1 << 20);
        let report = transfer.reflink(Reflink::Always).run().unwrap();
        assert_eq!(report.bytes(), LEN as u64 - (1 << 20));
        assert_eq!(report.strategy(), Strategy::Reflink);
        assert_same(&contents(&sink), &bytes[1 << 20..], "to the end");
        assert_shares(&sink, true, "to the end");
    }
}

#[test]
fn a_range_that_is_not_whole_blocks_is_copied_or_refused() {
    let bytes = pattern(LEN);
    for fs in CLONING {
        for (from, to, len) in [(1, 0, 1 << 20), (0, 1, 1 << 20), (0, 0, 999_999)] {
            let Some(dir) = fs.dir() else {
                continue;
            };
            let what = format!("{fs:?}, {from} to {to}, {len} bytes");
            for reflink in [Reflink::Auto, Reflink::Always] {
                let (source, sink) = (file_in(&dir, &bytes), file_in(&dir, b""));
                let transfer = Transfer::new(&source, &sink)
                    .source_offset(from)
                    .sink_offset(to)
                    .limit(len)
                    .reflink(reflink);
                let n = match transfer.run() {
                    Ok(report) => {
                        assert_eq!(reflink, Reflink::Auto, "{what}\n{report}");
                        assert_eq!(report.bytes(), len, "{what}");
                        assert_ne!(report.strategy(), Strategy::Buffered, "{what}\n{report}");
                        len
                    }
                    Err(error) => {
                        assert_eq!(reflink, Reflink::Always, "{what}: {error:#}");
                        assert!(error.is_unsuitable(), "{what}: {error:#}");
                        // Whole blocks before an odd end may have been shared.
                        error.bytes()
                    }
                };
                let [from, to, n] = [from, to, n].map(|n| usize::try_from(n).unwrap());
                let padding = if n > 0 { to } else { 0 };
                let expected = [&vec![0; padding], &bytes[from..from + n]].concat();
                assert_same(&contents(&sink), &expected, &what);
            }
        }
    }
}

#[test]
fn a_longer_sink_keeps_its_tail() {
    let bytes = pattern(1 << 20);
    for fs in CLONING {
        let Some(dir) = fs.dir() else {
            continue;
        };
        let (source, sink) = (file_in(&dir, &bytes), file_in(&dir, &vec![7; 2 << 20]));
        let report = Transfer::new(&source, &sink).run().unwrap();
        assert_eq!(report.bytes(), 1 << 20);
        assert_eq!(report.strategy(), Strategy::Reflink);
        let expected = [&bytes[..], &vec![7; 1 << 20]].concat();
        assert_same(&contents(&sink), &expected, "the tail stays");
    }
}

#[test]
fn always_is_an_error_where_blocks_cannot_be_shared() {
    let bytes = pattern(LEN);
    let pairs = [
        (Fs::Ext4, Fs::Ext4),
        (Fs::Tmpfs, Fs::Tmpfs),
        (Fs::Btrfs, Fs::Xfs),
        (Fs::Xfs, Fs::Ext4),
    ];
    for (from, to) in pairs {
        let (Some(from), Some(to)) = (from.dir(), to.dir()) else {
            continue;
        };
        let (source, sink) = (file_in(&from, &bytes), file_in(&to, b""));
        let transfer = || Transfer::new(&source, &sink).reflink(Reflink::Always);
        assert!(transfer().plan().unwrap_err().is_unsuitable());
        let error = transfer().run().unwrap_err();
        assert!(error.is_unsuitable() && error.bytes() == 0, "{error:#}");
        assert_eq!(contents(&sink), b"");
        assert_eq!(cursor(&source), 0);
    }
}

/// A rate limit means that bytes are moved.
#[test]
fn a_limited_rate_is_not_cloned_past() {
    let Some(dir) = Fs::Btrfs.dir() else {
        return;
    };
    let bytes = pattern(300_000);
    let (source, sink) = (file_in(&dir, &bytes), file_in(&dir, b""));
    let report = Transfer::new(&source, &sink)
        .rate_limit(10 << 20)
        .run()
        .unwrap();
    assert_ne!(report.strategy(), Strategy::Reflink);
    assert_same(&contents(&sink), &bytes, "at a rate");
}
