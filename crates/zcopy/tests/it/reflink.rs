//! Files that share their blocks after a transfer.

use std::fs::File;
use std::process::Command;

use rustix::fs::OFlags;
use zcopy::{Ended, Reflink, Strategy, Transfer};

use crate::files::{assert_same, contents, cursor, file_in, pattern, reopen, set_cursor};
use crate::mounts::Fs;
use crate::refused::{first_allowed, is_refused, needs};
use crate::skip::has_program;

const CLONING: [Fs; 2] = [Fs::Btrfs, Fs::Xfs];
const LEN: usize = (3 << 20) + 7;

/// The number of extents of a file, and how many of them are shared.
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
    let stdout = String::from_utf8(filefrag.stdout).unwrap();
    let lines = stdout.lines().filter(|line| line.contains(".."));
    let shared = lines.clone().filter(|line| line.contains("shared"));
    Some((lines.count(), shared.count()))
}

/// The candidates of the plan between two files of a file system that shares blocks.
const CLONED: [Strategy; 3] = [
    Strategy::Reflink,
    Strategy::CopyFileRange,
    Strategy::SplicePipe,
];

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
            let outcome = Transfer::new(&source, &sink).reflink(reflink).run();
            if reflink == Reflink::Always && is_refused(Strategy::Reflink) {
                assert!(outcome.unwrap_err().is_unsuitable(), "{what}");
                continue;
            }
            let report = outcome.unwrap();
            assert_eq!((report.bytes(), report.ended()), (LEN as u64, Ended::Eof));
            let expected = match reflink {
                Reflink::Never => first_allowed(&[Strategy::SplicePipe]),
                _ => first_allowed(&CLONED),
            };
            assert_eq!(report.strategy(), Some(expected), "{what}\n{report:#}");
            // The file system may share blocks in `copy_file_range` too.
            let shares = matches!(expected, Strategy::Reflink | Strategy::CopyFileRange);
            assert_eq!((cursor(&source), cursor(&sink)), (LEN as u64, LEN as u64));
            assert_same(&contents(&sink), &bytes, &what);
            assert_shares(&sink, shares, &what);
        }
    }
}

#[test]
fn on_xfs_small_files_are_copied_because_sharing_takes_longer() {
    let Some(dir) = Fs::Xfs.dir() else {
        return;
    };
    for (len, strategy) in [
        (64 << 10, Strategy::Buffered),
        ((64 << 10) + 1, first_allowed(&CLONED)),
    ] {
        let bytes = pattern(len);
        let (source, sink) = (file_in(&dir, &bytes), file_in(&dir, b""));
        let report = Transfer::new(&source, &sink).run().unwrap();
        assert_eq!(report.strategy(), Some(strategy), "{len} bytes");
        assert_same(&contents(&sink), &bytes, "all of it");
        let sink = file_in(&dir, b"");
        set_cursor(&source, 0);
        let always = Transfer::new(&source, &sink).reflink(Reflink::Always);
        if is_refused(Strategy::Reflink) {
            assert!(always.run().unwrap_err().is_unsuitable());
        } else {
            assert_eq!(always.run().unwrap().strategy(), Some(Strategy::Reflink));
        }
    }
}

/// `FICLONERANGE`: from the middle of one file to the middle of another.
#[test]
fn a_range_of_whole_blocks_is_shared() {
    if !needs(&[Strategy::Reflink]) {
        return;
    }
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
            assert_eq!(report.strategy(), Some(Strategy::Reflink));
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
    if !needs(&[Strategy::Reflink]) {
        return;
    }
    let bytes = pattern(LEN);
    for fs in CLONING {
        let Some(dir) = fs.dir() else {
            continue;
        };
        let (source, sink) = (file_in(&dir, &bytes), file_in(&dir, b""));
        let transfer = Transfer::new(&source, &sink).source_offset(1 << 20);
        let report = transfer.reflink(Reflink::Always).run().unwrap();
        assert_eq!(report.bytes(), LEN as u64 - (1 << 20));
        assert_eq!(report.strategy(), Some(Strategy::Reflink));
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
                        assert_eq!(reflink, Reflink::Auto, "{what}\n{report:#}");
                        assert_eq!(report.bytes(), len, "{what}");
                        let offload_is_allowed = first_allowed(&CLONED[1..]) != Strategy::Buffered;
                        let is_offloaded = report.strategy() != Some(Strategy::Buffered);
                        assert_eq!(is_offloaded, offload_is_allowed, "{what}\n{report:#}");
                        len
                    }
                    Err(error) => {
                        assert_eq!(reflink, Reflink::Always, "{what}: {error:#}");
                        assert!(error.is_unsuitable(), "{what}: {error:#}");
                        assert!(error.to_string().contains("multiple"), "{what}: {error:#}");
                        assert_eq!(error.bytes(), 0, "{what}: before anything moved");
                        0
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

/// A clone may end within a block only at the end of both files.
#[test]
fn an_odd_end_within_a_longer_sink_is_refused_before_anything_is_shared() {
    let bytes = pattern(LEN);
    for fs in CLONING {
        let Some(dir) = fs.dir() else {
            continue;
        };
        let (source, sink) = (file_in(&dir, &bytes), file_in(&dir, &vec![7; LEN + 1]));
        let transfer = Transfer::new(&source, &sink).reflink(Reflink::Always);
        let error = transfer.run().unwrap_err();
        assert!(error.is_unsuitable() && error.bytes() == 0, "{error:#}");
        assert!(error.to_string().contains("multiple"), "{fs:?}: {error:#}");
        assert_same(&contents(&sink), &vec![7; LEN + 1], "untouched");
    }
}

/// xfs with blocks of 1 KiB shares ranges that are no multiple of 4 KiB.
#[test]
fn ranges_need_whole_blocks_of_the_file_system() {
    if !needs(&[Strategy::Reflink]) {
        return;
    }
    let Some(root) = crate::mounts::loop_mount_with("xfs", 320, &["-b", "size=1024"]) else {
        return;
    };
    let bytes = pattern(100 << 10);
    let (source, sink) = (file_in(&root.dir(), &bytes), file_in(&root.dir(), b""));
    let transfer = || Transfer::new(&source, &sink).reflink(Reflink::Always);
    let report = transfer().source_offset(1024).limit(3072).run().unwrap();
    assert_eq!(
        (report.strategy(), report.bytes()),
        (Some(Strategy::Reflink), 3072)
    );
    assert_same(&contents(&sink), &bytes[1024..4096], "three blocks");
    assert!(transfer().limit(512).run().unwrap_err().is_unsuitable());
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
        assert_eq!(report.strategy(), Some(first_allowed(&CLONED)));
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

/// A clone moves no bytes, so a rate limit rules it out.
#[test]
fn a_rate_limit_rules_out_a_clone() {
    let Some(dir) = Fs::Btrfs.dir() else {
        return;
    };
    let bytes = pattern(300_000);
    let (source, sink) = (file_in(&dir, &bytes), file_in(&dir, b""));
    let report = Transfer::new(&source, &sink)
        .rate_limit(10 << 20)
        .run()
        .unwrap();
    assert_ne!(report.strategy(), Some(Strategy::Reflink));
    assert_same(&contents(&sink), &bytes, "at a rate");

    let sink = file_in(&dir, b"");
    let always = || Transfer::new(&source, &sink).source_offset(0);
    for transfer in [
        always().reflink(Reflink::Always),
        always().strategy(Strategy::Reflink),
    ] {
        let error = transfer.rate_limit(10 << 20).run().unwrap_err();
        assert!(error.is_unsuitable() && error.bytes() == 0, "{error:#}");
        assert!(error.to_string().contains("rate"), "{error}");
        assert_eq!(contents(&sink), b"");
    }
}

/// A clone of a whole file skips `F_GETFL`: the kernel refuses a wrong access mode.
#[test]
fn whole_files_are_cloned_only_into_writable_files() {
    if !needs(&[Strategy::Reflink]) {
        return;
    }
    for fs in CLONING {
        let Some(dir) = fs.dir() else {
            continue;
        };
        let bytes = pattern(LEN);
        let (source, empty) = (file_in(&dir, &bytes), file_in(&dir, b""));
        let clone = |source: &File, sink: &File| {
            let transfer = Transfer::new(source, sink).source_offset(0).sink_offset(0);
            transfer.reflink(Reflink::Always).run()
        };
        let open = |file: &File, flags| File::from(reopen(file, flags));
        let pipe = File::from(crate::endpoints::pipe().1);
        for (what, from, to) in [
            (
                "the sink appends",
                &source,
                &open(&empty, OFlags::WRONLY | OFlags::APPEND),
            ),
            (
                "the sink is read-only",
                &source,
                &open(&empty, OFlags::RDONLY),
            ),
            ("the sink is the source", &source, &source),
            (
                "the source is write-only",
                &open(&source, OFlags::WRONLY),
                &empty,
            ),
            ("the sink is a pipe", &source, &pipe),
        ] {
            let error = clone(from, to).expect_err(what);
            assert_eq!(error.bytes(), 0, "{fs:?}: {what}");
            assert_eq!(contents(&empty), b"", "{fs:?}: {what}");
        }
        assert_same(&contents(&source), &bytes, "the source");
        // A longer sink keeps its end.
        let whole = 2 << 20;
        let (source, sink) = (
            file_in(&dir, &bytes[..whole]),
            file_in(&dir, &vec![7; 3 << 20]),
        );
        let report = clone(&source, &sink).unwrap();
        assert_eq!(
            (report.strategy(), report.bytes()),
            (Some(Strategy::Reflink), whole as u64)
        );
        let mut expected = bytes[..whole].to_vec();
        expected.resize(3 << 20, 7);
        assert_same(&contents(&sink), &expected, "a longer sink");
        // One call clones into an empty sink.
        let report = clone(&source, &empty).unwrap();
        assert_eq!(
            (report.strategy(), report.bytes()),
            (Some(Strategy::Reflink), whole as u64)
        );
        assert_eq!(report.attempts()[0].calls(), 1, "{fs:?}");
        assert_same(&contents(&empty), &bytes[..whole], "an empty sink");
    }
}

/// Kernels before 5.19 get `copy_file_range` wrong across file systems.
#[test]
fn copy_file_range_is_not_used_between_two_file_systems_of_one_kind() {
    let (Some(here), Some(there)) = (Fs::Btrfs.dir(), crate::mounts::loop_mount("btrfs", 128))
    else {
        return;
    };
    let bytes = pattern(LEN);
    let (source, sink) = (file_in(&here, &bytes), file_in(&there.dir(), b""));
    let report = Transfer::new(&source, &sink).run().unwrap();
    assert_same(&contents(&sink), &bytes, "to another btrfs");
    let mut attempts = report.attempts().iter().map(zcopy::Attempt::strategy);
    assert!(
        attempts.all(|strategy| strategy != Strategy::CopyFileRange),
        "{report:#}"
    );
    let transfer = Transfer::new(&source, &sink).strategy(Strategy::CopyFileRange);
    assert!(transfer.run().unwrap_err().is_unsuitable());
}

/// Subvolumes have their own device numbers, and share blocks nevertheless.
#[test]
fn subvolumes_of_one_btrfs_share_blocks() {
    if !needs(&[Strategy::Reflink]) {
        return;
    }
    let (true, Some(dir)) = (has_program("btrfs"), Fs::Btrfs.dir()) else {
        return;
    };
    let name = format!("subvolume-{}", std::process::id());
    let fd = dir.file_name().unwrap().to_str().unwrap();
    let path_for_other_processes = format!("/proc/{}/fd/{fd}/{name}", std::process::id());
    let mut make = Command::new("btrfs");
    make.args(["subvolume", "create", &path_for_other_processes]);
    assert!(make.output().unwrap().status.success());
    let bytes = pattern(LEN);
    let (source, sink) = (file_in(&dir, &bytes), file_in(&dir.join(name), b""));
    let transfer = Transfer::new(&source, &sink).reflink(Reflink::Always);
    assert_eq!(transfer.run().unwrap().strategy(), Some(Strategy::Reflink));
    assert_same(&contents(&sink), &bytes, "to a subvolume");
    assert_shares(&sink, true, "to a subvolume");
}
