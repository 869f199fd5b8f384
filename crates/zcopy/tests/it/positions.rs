//! Offsets and cursors: windows, files beyond 4 GiB, and the largest position.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use zcopy::{Ended, Side, Strategy, Transfer};

use crate::endpoints::{Sink, SinkKind, SourceKind, null};
use crate::files::{allocated, assert_same, contents, cursor, file_in, pattern, set_cursor};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::refused::{allowed, first_allowed};
use crate::strategies::{assert_served, every_strategy, serves};

/// The largest position in a file.
const MAX_POSITION: u64 = i64::MAX as u64;

/// The offloads in the plan between two files on this file system, by their cursors.
fn between_files(fs: Fs) -> &'static [Strategy] {
    match fs {
        Fs::Ext4 | Fs::Tmpfs => &[Strategy::SplicePipe],
        _ => &[Strategy::CopyFileRange, Strategy::SplicePipe],
    }
}

#[test]
fn a_window_between_files_moves_no_cursor() {
    let bytes = pattern(1 << 20);
    // A window within blocks, and one of whole blocks, which can be cloned.
    for (from, to, len) in [(70_001, 3, 200_003), (65_536, 131_072, 262_144)] {
        for fs in Fs::ALL {
            for strategy in every_strategy() {
                let clones = matches!(fs, Fs::Btrfs | Fs::Xfs) && len % 4096 == 0;
                match strategy {
                    // `sendfile` takes no offset for its sink, and `splice` needs a pipe.
                    Some(Strategy::Sendfile | Strategy::Splice) => continue,
                    Some(Strategy::Reflink) if !clones => continue,
                    _ => {}
                }
                let Some(dir) = fs.dir() else {
                    continue;
                };
                let what = format!("{fs:?}, {strategy:?}, {len} bytes");
                let source = file_in(&dir, &bytes);
                let sink = file_in(&dir, b"untouched");
                set_cursor(&source, 5);
                set_cursor(&sink, 7);
                let transfer = Transfer::new(&source, &sink)
                    .source_offset(from)
                    .sink_offset(to)
                    .limit(len)
                    .maybe_strategy(strategy);
                let report = transfer
                    .run()
                    .unwrap_or_else(|error| panic!("{what}: {error:#}"));
                assert_eq!(
                    (report.bytes(), report.ended()),
                    (len, Ended::Limit),
                    "{what}"
                );
                assert_served(&report, strategy, &what);
                let offloads = [Strategy::CopyFileRange, Strategy::SplicePipe];
                if strategy.is_none() && first_allowed(&offloads) != Strategy::Buffered {
                    assert_ne!(
                        report.strategy(),
                        Some(Strategy::Buffered),
                        "{what}\n{report:#}"
                    );
                }
                assert_eq!((cursor(&source), cursor(&sink)), (5, 7), "{what}");
                let [from, to, len] = [from, to, len].map(|n| usize::try_from(n).unwrap());
                let mut expected = vec![0; to.max(9) + len];
                expected[..9].copy_from_slice(b"untouched");
                expected.truncate((to + len).max(9));
                expected[to..to + len].copy_from_slice(&bytes[from..from + len]);
                assert_same(&contents(&sink), &expected, &what);
            }
        }
    }
}

/// A sparse file of a little more than 4 GiB, and its marks: a byte before, at and after each limit
/// of 31 and 32 bits.
fn large(fs: Fs) -> Option<(File, Vec<(u64, u8)>)> {
    let file = file_in(&fs.dir()?, b"");
    file.set_len((1 << 32) + 10_000).unwrap();
    let limits = [1 << 31, 1 << 32].into_iter();
    let places = limits.flat_map(|limit: u64| [limit - 1, limit, limit + 1]);
    let marks = places.enumerate().map(|(n, place)| {
        let mark = u8::try_from(n).unwrap() + 1;
        file.write_all_at(&[mark], place).unwrap();
        (place, mark)
    });
    let marks = marks.collect();
    Some((file, marks))
}

#[test]
fn a_file_beyond_4_gib_is_moved_whole_and_keeps_its_holes() {
    for fs in Fs::ALL {
        let Some((source, marks)) = large(fs) else {
            continue;
        };
        let len = source.metadata().unwrap().len();
        for strategy in every_strategy() {
            match strategy {
                Some(Strategy::Splice | Strategy::Sendfile) => continue,
                Some(Strategy::Reflink) if !matches!(fs, Fs::Btrfs | Fs::Xfs) => continue,
                _ => {}
            }
            let what = format!("{fs:?}, {strategy:?}");
            let sink = file_in(&fs.dir().unwrap(), b"");
            set_cursor(&source, 0);
            let transfer = Transfer::new(&source, &sink).maybe_strategy(strategy);
            let report = transfer
                .run()
                .unwrap_or_else(|error| panic!("{what}: {error:#}"));
            assert_eq!(
                (report.bytes(), report.ended()),
                (len, Ended::Eof),
                "{what}"
            );
            let moved_data = |strategy| {
                let mut attempts = report.attempts().iter();
                attempts.any(|attempt| attempt.strategy() == strategy && attempt.bytes() > 0)
            };
            assert!(strategy.is_none_or(moved_data), "{what}\n{report:#}");
            let offloads = between_files(fs);
            if strategy.is_none() && first_allowed(offloads) != Strategy::Buffered {
                assert_ne!(report.strategy(), Some(Strategy::Buffered), "{what}");
            }
            assert_eq!(sink.metadata().unwrap().len(), len, "{what}");
            assert_eq!((cursor(&source), cursor(&sink)), (len, len), "{what}");
            for (place, mark) in &marks {
                let mut found = [0];
                sink.read_exact_at(&mut found, *place).unwrap();
                assert_eq!(found, [*mark], "{what}, at {place}");
                sink.read_exact_at(&mut found, place + 2).unwrap();
                let next = marks.iter().find(|(other, _)| *other == place + 2);
                assert_eq!(found, [next.map_or(0, |(_, mark)| *mark)], "{what}");
            }
            let most = 1 << 20;
            assert!(
                allocated(&sink) <= most,
                "{what}: {} allocated",
                allocated(&sink)
            );
        }
    }
}

#[test]
fn windows_around_31_and_32_bits_arrive_in_a_pipe() {
    let Some((source, marks)) = large(Fs::Tmpfs) else {
        return;
    };
    // More than 32 KiB, so that the plan offloads.
    let len = 50_000;
    for (limit, first) in [(1_u64 << 31, 0), (1 << 32, 3)] {
        for strategy in every_strategy() {
            if matches!(strategy, Some(Strategy::Reflink | Strategy::CopyFileRange)) {
                continue;
            }
            let what = format!("{strategy:?} at {limit}");
            let sink = Sink::new(SinkKind::Pipe).unwrap();
            let offset = limit - 45_000;
            let transfer = Transfer::new(&source, &sink.fd)
                .source_offset(offset)
                .limit(len)
                .maybe_strategy(strategy);
            let report = transfer.run().unwrap();
            assert_eq!(
                (report.bytes(), report.ended()),
                (len, Ended::Limit),
                "{what}"
            );
            assert_served(&report, strategy, &what);
            let offloads = [Strategy::Splice, Strategy::Sendfile];
            if strategy.is_none() && first_allowed(&offloads) != Strategy::Buffered {
                assert_ne!(report.strategy(), Some(Strategy::Buffered), "{what}");
            }
            let mut expected = vec![0; 50_000];
            for (place, mark) in &marks[first..first + 3] {
                expected[usize::try_from(place - offset).unwrap()] = *mark;
            }
            assert_same(&sink.into_bytes(0).unwrap(), &expected, &what);
        }
    }
}

#[test]
fn more_than_4_gib_are_counted() {
    const MANY: u64 = (1 << 32) + 3;
    let zeros = File::open("/dev/zero").unwrap();
    let null = null();
    let strategies = [Strategy::SplicePipe, Strategy::Sendfile, Strategy::Buffered];
    let are_served = |strategy: &Strategy| serves(*strategy, SourceKind::Zero, SinkKind::Null);
    for strategy in allowed(strategies).filter(are_served) {
        let transfer = Transfer::new(&zeros, &null).limit(MANY).strategy(strategy);
        let report = transfer.run().unwrap();
        assert_eq!((report.bytes(), report.ended()), (MANY, Ended::Limit));
        assert_eq!(report.strategy(), Some(strategy));
    }
}

/// The errno of a failed read.
fn errno_of(result: rustix::io::Result<usize>) -> Option<i32> {
    result.err().map(Errno::raw_os_error)
}

#[test]
fn a_source_at_the_largest_position_is_answered_as_read_is() {
    // Files on ext4 cannot be that long.
    for fs in [Fs::Tmpfs, Fs::Btrfs, Fs::Xfs] {
        let Some(dir) = fs.dir() else {
            continue;
        };
        let source = file_in(&dir, &pattern(40_000));
        for position in [MAX_POSITION - 5, MAX_POSITION - 1, MAX_POSITION] {
            let one = rustix::io::pread(&source, &mut [0; 1], position);
            for strategy in every_strategy() {
                if matches!(
                    strategy,
                    Some(Strategy::Reflink | Strategy::Splice | Strategy::Sendfile)
                ) {
                    continue;
                }
                let what = format!("{fs:?}, {strategy:?}, {}", MAX_POSITION - position);
                let sink = file_in(&dir, b"");
                let transfer = Transfer::new(&source, &sink)
                    .source_offset(position)
                    .maybe_strategy(strategy);
                match transfer.run() {
                    Ok(report) => {
                        assert_eq!((report.bytes(), report.ended()), (0, Ended::Eof), "{what}");
                        assert_eq!(errno_of(one), None, "{what}");
                    }
                    Err(error) if error.is_unsuitable() => {
                        assert!(
                            errno_of(one).is_some() && strategy.is_some(),
                            "{what}: {error:#}"
                        );
                    }
                    Err(error) => {
                        assert_eq!(error.side(), Side::Source, "{what}: {error:#}");
                        assert_eq!(error.raw_os_error(), errno_of(one), "{what}");
                    }
                }
                assert_eq!(contents(&sink), b"", "{what}");
            }
        }
    }
}

#[test]
fn a_sink_at_the_largest_position_takes_what_fits() {
    let bytes = pattern(40_000);
    let Some(dir) = Fs::Tmpfs.dir() else {
        return;
    };
    let source = file_in(&dir, &bytes);
    for room in [0, 1, 5, 4096] {
        let position = MAX_POSITION - room;
        for strategy in every_strategy() {
            if matches!(
                strategy,
                Some(Strategy::Reflink | Strategy::Splice | Strategy::Sendfile)
            ) {
                continue;
            }
            let what = format!("{strategy:?}, room for {room}");
            let sink = file_in(&dir, b"");
            let transfer = Transfer::new(&source, &sink)
                .source_offset(0)
                .sink_offset(position)
                .maybe_strategy(strategy);
            let error = transfer.run().expect_err(&what);
            assert_eq!(error.bytes(), room, "{what}: {error:#}");
            if error.is_unsuitable() {
                assert!(
                    strategy.is_some_and(|strategy| strategy != Strategy::Buffered),
                    "{what}"
                );
            } else {
                assert_eq!(error.side(), Side::Sink, "{what}: {error:#}");
                let errno = error.raw_os_error().map(Errno::from_raw_os_error);
                let is_too_far = matches!(errno, Some(Errno::FBIG | Errno::INVAL));
                assert!(is_too_far, "{what}: {error:#}");
            }
            let mut found = vec![0; usize::try_from(room).unwrap()];
            sink.read_exact_at(&mut found, position).unwrap();
            assert_same(&found, &bytes[..found.len()], &what);
        }
    }
}

/// The same at a cursor, by the plan and by read and write.
#[test]
fn a_cursor_at_the_largest_position_loses_no_count() {
    let bytes = pattern(40_000);
    let Some(dir) = Fs::Tmpfs.dir() else {
        return;
    };
    for room in [0, 1, 5, 4096] {
        for strategy in [None, Some(Strategy::Buffered)] {
            let what = format!("{strategy:?}, room for {room}");
            let (source, sink) = (file_in(&dir, &bytes), file_in(&dir, b""));
            set_cursor(&sink, MAX_POSITION - room);
            let transfer = Transfer::new(&source, &sink).maybe_strategy(strategy);
            let error = transfer.run().expect_err(&what);
            assert_eq!(error.side(), Side::Sink, "{what}: {error:#}");
            assert!(error.bytes() <= room, "{what}: {error:#}");
            assert_eq!(cursor(&source), error.bytes(), "{what}");
            assert_eq!(cursor(&sink), MAX_POSITION - room + error.bytes(), "{what}");
            let mut found = vec![0; usize::try_from(error.bytes()).unwrap()];
            sink.read_exact_at(&mut found, MAX_POSITION - room).unwrap();
            assert_same(&found, &bytes[..found.len()], &what);
        }
    }
}
