//! Holes that are kept, filled or made.

use std::fs::File;
use std::os::unix::fs::FileExt;

use zcopy::{Ended, Sparse, Strategy, Transfer};

use crate::endpoints::{Sink, SinkKind, Source, SourceKind};
use crate::files::{allocated, assert_same, contents, cursor, file_in, pattern, set_cursor};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::refused::first_allowed;
use crate::strategies::{assert_served, every_strategy};

mod concurrent;
mod fuse;
mod unwritten;

const MIB: usize = 1 << 20;
/// These file systems count blocks exactly; others count metadata in `st_blocks` too.
const COUNTED: [Fs; 2] = [Fs::Tmpfs, Fs::Ext4];

/// Each layout says which of four MiB are data.
const LAYOUTS: [[bool; 4]; 6] = [
    [false, true, false, true],
    [true, false, true, false],
    [true, false, false, true],
    [false, false, false, true],
    [true, false, false, false],
    [false, false, false, false],
];

/// A file with this layout, and its bytes.
fn sparse(fs: Fs, layout: [bool; 4]) -> Option<(File, Vec<u8>)> {
    let file = file_in(&fs.dir()?, b"");
    let data = pattern(MIB);
    let mut bytes = vec![0; layout.len() * MIB];
    file.set_len(bytes.len() as u64).unwrap();
    for (n, _) in layout.iter().enumerate().filter(|(_, is_data)| **is_data) {
        file.write_all_at(&data, (n * MIB) as u64).unwrap();
        bytes[n * MIB..][..MIB].copy_from_slice(&data);
    }
    Some((file, bytes))
}

/// The bytes of a layout that are holes.
fn hole_bytes(layout: [bool; 4]) -> u64 {
    (layout.iter().filter(|is_data| !**is_data).count() * MIB) as u64
}

/// The strategies from file to file on ext4 or tmpfs.
fn strategies_between_files() -> impl Iterator<Item = Option<Strategy>> {
    every_strategy().filter(|strategy| {
        !matches!(
            strategy,
            Some(Strategy::Reflink | Strategy::Splice | Strategy::Sendfile)
        )
    })
}

#[test]
fn keep_keeps_holes_wherever_they_are_by_every_strategy() {
    for (fs, to) in COUNTED
        .into_iter()
        .flat_map(|fs| COUNTED.map(|to| (fs, to)))
    {
        for (layout, strategy) in
            strategies_between_files().flat_map(|strategy| LAYOUTS.map(|it| (it, strategy)))
        {
            if fs != to && strategy == Some(Strategy::CopyFileRange) {
                continue;
            }
            let what = format!("{fs:?} to {to:?}, {layout:?}, {strategy:?}");
            let (Some((source, bytes)), Some(dir)) = (sparse(fs, layout), to.dir()) else {
                continue;
            };
            let sink = file_in(&dir, b"");
            let transfer = Transfer::new(&source, &sink).maybe_strategy(strategy);
            let report = transfer
                .run()
                .unwrap_or_else(|error| panic!("{what}: {error:#}"));
            let len = bytes.len() as u64;
            assert_eq!(
                (report.bytes(), report.ended()),
                (len, Ended::Eof),
                "{what}"
            );
            assert_eq!(report.hole_bytes(), hole_bytes(layout), "{what}");
            assert_same(&contents(&sink), &bytes, &what);
            assert_eq!(allocated(&sink), len - hole_bytes(layout), "{what}");
            assert_eq!((cursor(&source), cursor(&sink)), (len, len), "{what}");
            assert_served(&report, strategy, &what);
        }
    }
}

/// Holes of the source become holes of the sink: old bytes there are gone, and their blocks are
/// free.
#[test]
fn keep_punches_holes_into_what_the_sink_held() {
    for (fs, layout) in COUNTED
        .into_iter()
        .flat_map(|fs| LAYOUTS.map(|it| (fs, it)))
    {
        for strategy in strategies_between_files() {
            // The old sink is longer than the source, as long, or ends within a hole of the source.
            for old_len in [5 * MIB, 4 * MIB, 3 * MIB + 5000] {
                let what = format!("{fs:?}, {layout:?}, {strategy:?} over {old_len} bytes");
                let (Some((source, mut bytes)), Some(dir)) = (sparse(fs, layout), fs.dir()) else {
                    continue;
                };
                let sink = file_in(&dir, &vec![0xff; old_len]);
                let transfer = Transfer::new(&source, &sink).maybe_strategy(strategy);
                let report = transfer.run().unwrap();
                assert_eq!(report.bytes(), 4 * MIB as u64, "{what}");
                assert_eq!(report.hole_bytes(), hole_bytes(layout), "{what}");
                let tail = old_len.saturating_sub(bytes.len());
                bytes.extend(vec![0xff; tail]);
                assert_same(&contents(&sink), &bytes, &what);
                // The block in which the old sink ended stays allocated.
                let expected = bytes.len() as u64 - hole_bytes(layout);
                let found = allocated(&sink);
                assert!(
                    (expected..=expected + 4096).contains(&found),
                    "{what}: {found}"
                );
            }
        }
    }
}

#[test]
fn keep_counts_from_the_cursors_and_stops_at_the_limit() {
    let layout = [false, true, false, false];
    for strategy in strategies_between_files() {
        let Some((source, bytes)) = sparse(Fs::Tmpfs, layout) else {
            return;
        };
        let sink = file_in(&Fs::Tmpfs.dir().unwrap(), b"");
        set_cursor(&source, 4096);
        set_cursor(&sink, 8192);
        let limit = 3 * MIB - 8192;
        let transfer = Transfer::new(&source, &sink)
            .limit(limit as u64)
            .maybe_strategy(strategy);
        let report = transfer.run().unwrap();
        assert_eq!(
            (report.bytes(), report.ended()),
            (limit as u64, Ended::Limit)
        );
        assert_served(&report, strategy, &format!("{strategy:?}"));
        let expected = [&[0; 8192], &bytes[4096..4096 + limit]].concat();
        assert_same(&contents(&sink), &expected, "a window that ends in a hole");
        assert_eq!(allocated(&sink), MIB as u64, "{strategy:?}");
        assert_eq!(cursor(&source), (4096 + limit) as u64);
        assert_eq!(cursor(&sink), (8192 + limit) as u64);
    }
}

#[test]
fn keep_reads_holes_as_zeros_where_the_sink_has_none() {
    for to in [SinkKind::Pipe, SinkKind::Append, SinkKind::Tcp] {
        let (Some((source, bytes)), Some(sink)) = (sparse(Fs::Tmpfs, LAYOUTS[0]), Sink::new(to))
        else {
            continue;
        };
        let report = Transfer::new(&source, &sink.fd).run().unwrap();
        assert_eq!((report.bytes(), report.hole_bytes()), (4 * MIB as u64, 0));
        let is_offloaded = report.strategy() != Some(Strategy::Buffered);
        let offloads = [Strategy::Sendfile, Strategy::SplicePipe];
        let offload_is_allowed = first_allowed(&offloads) != Strategy::Buffered;
        assert_eq!(is_offloaded, to != SinkKind::Append && offload_is_allowed);
        assert_same(&sink.into_bytes(0).unwrap(), &bytes, "zeros");
    }
}

#[test]
fn fill_allocates_every_block() {
    for (fs, layout) in COUNTED
        .into_iter()
        .flat_map(|fs| LAYOUTS.map(|it| (fs, it)))
    {
        for strategy in
            strategies_between_files().filter(|strategy| *strategy != Some(Strategy::CopyFileRange))
        {
            let what = format!("{fs:?}, {layout:?}, {strategy:?}");
            let (Some((source, bytes)), Some(dir)) = (sparse(fs, layout), fs.dir()) else {
                continue;
            };
            let sink = file_in(&dir, b"");
            let transfer = Transfer::new(&source, &sink)
                .sparse(Sparse::Fill)
                .maybe_strategy(strategy);
            let report = transfer.run().unwrap();
            assert_eq!(
                (report.bytes(), report.hole_bytes()),
                (4 * MIB as u64, 0),
                "{what}"
            );
            assert_served(&report, strategy, &what);
            assert_ne!(
                report.strategy(),
                Some(Strategy::CopyFileRange),
                "it may keep holes"
            );
            assert_same(&contents(&sink), &bytes, &what);
            assert_eq!(allocated(&sink), 4 * MIB as u64, "{what}");
        }
    }
}

/// On btrfs and xfs a clone would keep the holes.
#[test]
fn fill_does_not_clone() {
    for fs in [Fs::Btrfs, Fs::Xfs] {
        let Some((source, bytes)) = sparse(fs, LAYOUTS[0]) else {
            continue;
        };
        let sink = file_in(&fs.dir().unwrap(), b"");
        let transfer = Transfer::new(&source, &sink).sparse(Sparse::Fill);
        let report = transfer.run().unwrap();
        let clones = [Strategy::Reflink, Strategy::CopyFileRange].map(Some);
        assert!(!clones.contains(&report.strategy()), "{report:#}");
        assert_same(&contents(&sink), &bytes, "filled");
        assert!(allocated(&sink) >= 4 * MIB as u64);
    }
}

#[test]
fn detect_makes_holes_of_zeros_whatever_the_source() {
    for (fs, layout) in COUNTED
        .into_iter()
        .flat_map(|fs| LAYOUTS.map(|it| (fs, it)))
    {
        let Some((_, bytes)) = sparse(fs, layout) else {
            continue;
        };
        for from in [
            SourceKind::Regular(fs),
            SourceKind::Memfd,
            SourceKind::Pipe,
            SourceKind::Tcp,
            SourceKind::Block,
        ] {
            for old_len in [0, 2 * MIB + 100] {
                let what = format!("{from:?} to {fs:?}, {layout:?}, over {old_len} bytes");
                let Some(source) = Source::new(from, &bytes) else {
                    continue;
                };
                let sink = file_in(&fs.dir().unwrap(), &vec![0xff; old_len]);
                let transfer = Transfer::new(&source.fd, &sink)
                    .sparse(Sparse::Detect)
                    .maybe_limit(source.limit);
                let report = transfer.run().unwrap();
                assert_eq!(report.bytes(), bytes.len() as u64, "{what}");
                assert_eq!(report.strategy(), Some(Strategy::Buffered), "{what}");
                assert_eq!(cursor(&sink), bytes.len() as u64, "{what}");
                assert_same(&contents(&sink), &bytes, &what);
                // Short reads of pipes and sockets can split a block of zeros, which is then
                // written.
                if source.cursor().is_some() {
                    assert_eq!(report.hole_bytes(), hole_bytes(layout), "{what}");
                    // The block in which the old sink ended stays allocated.
                    let expected = bytes.len() as u64 - hole_bytes(layout);
                    let found = allocated(&sink);
                    assert!(
                        (expected..=expected + 4096).contains(&found),
                        "{what}: {found}"
                    );
                } else {
                    assert!(report.hole_bytes() <= hole_bytes(layout), "{what}");
                }
            }
        }
    }
}

#[test]
fn detect_appends_zeros_as_zeros() {
    let source = Source::new(SourceKind::Memfd, &vec![0; MIB]).unwrap();
    let Some(sink) = Sink::new(SinkKind::Append) else {
        return;
    };
    let transfer = Transfer::new(&source.fd, &sink.fd).sparse(Sparse::Detect);
    let report = transfer.run().unwrap();
    assert_eq!((report.bytes(), report.hole_bytes()), (MIB as u64, 0));
    assert_same(&sink.into_bytes(0).unwrap(), &vec![0; MIB], "appended");
}

#[test]
fn inspect_sees_holes_as_zeros_and_leaves_them() {
    for sparse_option in [
        Sparse::Keep,
        Sparse::Fill,
        Sparse::Detect,
        Sparse::KeepUnwritten,
    ] {
        let Some((source, bytes)) = sparse(Fs::Tmpfs, LAYOUTS[0]) else {
            return;
        };
        let sink = file_in(&Fs::Tmpfs.dir().unwrap(), b"");
        let mut seen = Vec::new();
        let report = Transfer::new(&source, &sink)
            .sparse(sparse_option)
            .inspect(|bytes| seen.extend_from_slice(bytes))
            .run()
            .unwrap();
        assert_eq!(report.bytes(), bytes.len() as u64);
        assert_eq!(report.strategy(), Some(Strategy::Buffered));
        assert_same(&seen, &bytes, "inspected");
        assert_same(&contents(&sink), &bytes, "arrived");
        let expected = match sparse_option {
            Sparse::Fill => 0,
            _ => hole_bytes(LAYOUTS[0]),
        };
        assert_eq!(report.hole_bytes(), expected, "{sparse_option:?}");
        assert_eq!(allocated(&sink), bytes.len() as u64 - expected);
    }
}
