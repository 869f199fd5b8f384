//! Sources with blocks that cannot be read.
//!
//! The bad blocks are real. The sources are files on a btrfs in an image; some blocks were changed
//! in the image, so that their checksums are wrong and reads of them fail with `EIO`. Some of these
//! files serve as disks, also as the disk of another file system.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use rustix::fs::OFlags;
use zcopy::{Cache, Ended, Reflink, Side, SkipErrors, Sparse, Strategy, Transfer};

use crate::files::{assert_same, contents, cursor, file, file_in, reopen, set_cursor};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::refused::is_refused;

mod disk;
mod injected_errors;

use disk::{BLOCK, beside_damaged, damaged, damaged_device, damaged_on_ext4, words, zeroed};

/// The last block of the file is incomplete.
const LEN: usize = (3 << 20) + 777;

/// The cases: each lists the blocks that are bad.
fn bad_block_lists() -> Vec<Vec<usize>> {
    let last = LEN / BLOCK;
    vec![
        vec![0],
        vec![last],
        vec![300],
        vec![1, 2, 3, 255, 256, 500, 767, last],
        (0..60).map(|n| 100 + 2 * n).collect(),
        (200..400).collect(),
        (400..=last).collect(),
        (0..=last).collect(),
    ]
}

fn n_zeroed(bytes: &[u8], expected: &[u8]) -> u64 {
    bytes.iter().zip(expected).filter(|(a, b)| a != b).count() as u64
}

/// Moves a whole source into a file, by cursors and by offsets, and checks the bytes and the ranges
/// that were skipped.
#[track_caller]
fn assert_skips(source: &impl AsFd, bytes: &[u8], bad: &[usize], strategy: Option<Strategy>) {
    let what = format!("{bad:?}, {strategy:?}");
    let expected = zeroed(bytes, bad);
    for by_offset in [false, true] {
        let sink = file(b"");
        set_cursor(source, 0);
        let mut ranges = Vec::new();
        let mut transfer = Transfer::new(source, &sink)
            .skip_errors(SkipErrors::Adaptive)
            .on_skip(|skipped| ranges.push((skipped.offset(), skipped.bytes(), skipped.error())))
            .maybe_strategy(strategy);
        if by_offset {
            transfer = transfer.source_offset(0).sink_offset(0);
        }
        let report = transfer
            .run()
            .unwrap_or_else(|error| panic!("{what}: {error:#}"));
        assert_same(&contents(&sink), &expected, &what);
        let len = bytes.len() as u64;
        assert_eq!(
            (report.bytes(), report.ended()),
            (len, Ended::Eof),
            "{what}"
        );
        let at = if by_offset { 0 } else { len };
        assert_eq!((cursor(source), cursor(&sink)), (at, at), "{what}");
        let n: u64 = ranges.iter().map(|(_, bytes, _)| bytes).sum();
        assert_eq!(report.skipped_bytes(), n, "{what}");
        let mut left = bytes.to_vec();
        for (offset, len, error) in ranges {
            assert_eq!(error.raw_os_error(), Some(5), "EIO");
            let offset = usize::try_from(offset).unwrap();
            left[offset..][..usize::try_from(len).unwrap()].fill(0);
        }
        assert_same(&left, &expected, &format!("{what}: the ranges of on_skip"));
    }
}

#[test]
fn every_block_of_a_file_that_can_be_read_arrives() {
    for bad in bad_block_lists() {
        let bytes = words(LEN);
        let Some(source) = damaged(&bytes, &bad) else {
            return;
        };
        for strategy in [None, Some(Strategy::Buffered)] {
            assert_skips(&source, &bytes, &bad, strategy);
        }
        assert_skips(
            &reopen(&source, OFlags::DIRECT),
            &bytes,
            &bad,
            Some(Strategy::Buffered),
        );
    }
}

/// One bad block fails a whole read of a disk with `O_DIRECT`.
#[test]
fn every_block_of_a_disk_that_can_be_read_arrives() {
    const LEN: usize = 3 << 20;
    for mut bad in bad_block_lists() {
        bad.retain(|block| *block < LEN / BLOCK);
        let bytes = words(LEN);
        let Some(source) = damaged_device(&bytes, &bad) else {
            return;
        };
        assert_skips(&source, &bytes, &bad, None);
        assert_skips(&reopen(&source, OFlags::DIRECT), &bytes, &bad, None);
    }
}

#[test]
fn every_block_of_a_file_on_a_bad_disk_that_can_be_read_arrives() {
    for bad in bad_block_lists() {
        let bytes = words(LEN);
        let Some(source) = damaged_on_ext4(&bytes, &bad) else {
            return;
        };
        assert_skips(&source, &bytes, &bad, None);
    }
}

/// Read-ahead fills large folios (for disks, and for ext4 since Linux 6.16). One bad block makes
/// the whole folio unreadable.
#[test]
fn good_blocks_of_a_large_folio_arrive() {
    for bad in [vec![300], (0..60).map(|n| 100 + 5 * n).collect()] {
        for damage in [damaged_device, damaged_on_ext4] {
            let bytes = words(3 << 20);
            let Some(source) = damage(&bytes, &bad) else {
                return;
            };
            let mut block = [0; BLOCK];
            for at in (0..bytes.len() as u64).step_by(BLOCK) {
                let _ = source.read_at(&mut block, at);
            }
            assert_skips(&source, &bytes, &bad, None);
            // A first read of one block fails as one of many blocks does.
            let sink = file(b"");
            set_cursor(&source, 0);
            let transfer = Transfer::new(&source, &sink).skip_errors(SkipErrors::Adaptive);
            transfer
                .buffer_size(BLOCK)
                .strategy(Strategy::Buffered)
                .run()
                .unwrap();
            assert_same(&contents(&sink), &zeroed(&bytes, &bad), "block by block");
        }
    }
}

/// A clone would share the bad blocks.
#[test]
fn bad_blocks_are_not_shared_without_a_request() {
    let bad = vec![0, 300];
    let bytes = words(LEN);
    let (Some(source), Some(sink)) = (damaged(&bytes, &bad), beside_damaged()) else {
        return;
    };
    let transfer = || Transfer::new(&source, &sink).skip_errors(SkipErrors::Adaptive);
    let report = transfer().source_offset(0).sink_offset(0).run().unwrap();
    assert_same(&contents(&sink), &zeroed(&bytes, &bad), "not cloned");
    assert_eq!(report.skipped_bytes(), 2 * BLOCK as u64);
    for strategy in [Strategy::Reflink, Strategy::CopyFileRange] {
        let refused = transfer().strategy(strategy).run().unwrap_err();
        assert!(refused.is_unsuitable(), "{refused:#}");
    }
    set_cursor(&sink, 0);
    rustix::fs::ftruncate(&sink, 0).unwrap();
    let outcome = transfer().reflink(Reflink::Always).run();
    if is_refused(Strategy::Reflink) {
        assert!(outcome.unwrap_err().is_unsuitable());
        return;
    }
    let report = outcome.unwrap();
    assert_eq!(report.strategy(), Some(Strategy::Reflink));
    assert_eq!(report.skipped_bytes(), 0);
}

#[test]
fn a_pipe_and_a_socket_get_zeros_too() {
    let bad = vec![0, 300, 301, 767];
    let bytes = words(LEN);
    let Some(source) = damaged(&bytes, &bad) else {
        return;
    };
    let (tcp, there) = crate::endpoints::tcp();
    for (sink, back) in [crate::endpoints::pipe(), (there, tcp)].map(|(back, sink)| (sink, back)) {
        set_cursor(&source, 0);
        let reader = std::thread::spawn(move || crate::files::read_to_end(&back));
        let transfer = Transfer::new(&source, &sink).skip_errors(SkipErrors::Adaptive);
        let report = transfer.tick(Duration::from_millis(5)).run().unwrap();
        drop(sink);
        assert_same(&reader.join().unwrap(), &zeroed(&bytes, &bad), "zeros");
        assert_eq!(report.skipped_bytes(), 4 * BLOCK as u64);
        let strategies: Vec<_> = report
            .attempts()
            .iter()
            .map(zcopy::Attempt::strategy)
            .collect();
        assert!(strategies.len() > 1, "{report:#}");
        assert_eq!(strategies.last(), Some(&Strategy::Buffered), "{report:#}");
    }
}

#[test]
fn a_direct_sink_gets_whole_blocks() {
    const LEN: usize = 3 << 20;
    let bytes = words(LEN);
    let (Some(source), Some(dir)) = (damaged(&bytes, &[1, 300, 767]), Fs::Ext4.dir()) else {
        return;
    };
    for strategy in [None, Some(Strategy::Buffered)] {
        let plain = file_in(&dir, b"");
        let sink = reopen(&plain, OFlags::DIRECT | OFlags::RDWR);
        let transfer = Transfer::new(&source, &sink).source_offset(0);
        let transfer = transfer
            .skip_errors(SkipErrors::Adaptive)
            .maybe_strategy(strategy);
        assert_eq!(transfer.run().unwrap().skipped_bytes(), 3 * BLOCK as u64);
        assert_same(&contents(&plain), &zeroed(&bytes, &[1, 300, 767]), "direct");
    }
}

#[test]
fn a_block_is_skipped_up_to_the_next_multiple() {
    let bytes = words(LEN);
    let Some(source) = damaged(&bytes, &[100, 101, 300]) else {
        return;
    };
    for (block, skipped) in [
        (BLOCK, vec![100..101, 101..102, 300..301]),
        (64 << 10, vec![100..112, 300..304]),
        (1 << 20, vec![100..256, 300..512]),
    ] {
        let sink = file(b"");
        let policy = SkipErrors::Block(NonZeroU64::new(block as u64).unwrap());
        let transfer = Transfer::new(&source, &sink).source_offset(0);
        let report = transfer.skip_errors(policy).run().unwrap();
        let expected = zeroed(&bytes, &skipped.into_iter().flatten().collect::<Vec<_>>());
        assert_same(&contents(&sink), &expected, &format!("{block}"));
        assert!(report.skipped_bytes() >= n_zeroed(&bytes, &expected));
        assert!(
            format!("{report:#}").contains("could not be read"),
            "{report:#}"
        );
    }
}

#[test]
fn bad_blocks_are_skipped_within_an_offset_and_a_limit() {
    let bad = vec![10, 11, 12];
    let bytes = words(LEN);
    let Some(source) = damaged(&bytes, &bad) else {
        return;
    };
    let expected = zeroed(&bytes, &bad);
    for (start, limit) in [
        (41_000, 5000),
        (41_000, 100_000),
        (0, 41_000),
        (53_000, 10_000),
    ] {
        let sink = file(b"");
        set_cursor(&source, start);
        let transfer = Transfer::new(&source, &sink).limit(limit);
        let report = transfer.skip_errors(SkipErrors::Adaptive).run().unwrap();
        assert_eq!((report.bytes(), report.ended()), (limit, Ended::Limit));
        assert_eq!(cursor(&source), start + limit);
        let (from, to) = (start as usize, (start + limit) as usize);
        assert_same(&contents(&sink), &expected[from..to], &format!("{start}"));
    }
}

#[test]
fn skipping_works_with_inspect_drop_behind_a_rate_and_holes() {
    let bad: Vec<_> = (40..100).collect();
    let bytes = words(LEN);
    let Some(source) = damaged(&bytes, &bad) else {
        return;
    };
    let expected = zeroed(&bytes, &bad);
    let (sink, mut seen) = (file(b""), Vec::new());
    let report = Transfer::new(&source, &sink)
        .skip_errors(SkipErrors::Adaptive)
        .inspect(|bytes| seen.extend_from_slice(bytes))
        .sparse(Sparse::Detect)
        .cache(Cache::DropBehind)
        .rate_limit(100 << 20)
        .run()
        .unwrap();
    assert_same(&seen, &expected, "inspected");
    assert_same(&contents(&sink), &expected, "arrived");
    assert_eq!(report.skipped_bytes(), (bad.len() * BLOCK) as u64);
    assert_eq!(report.hole_bytes(), report.skipped_bytes());
}

#[test]
fn a_bad_block_ends_a_transfer_that_does_not_skip_errors() {
    let bytes = words(LEN);
    let Some(source) = damaged(&bytes, &[300]) else {
        return;
    };
    let sink = file(b"");
    let error = Transfer::new(&source, &sink).run().unwrap_err();
    assert_eq!(
        (error.side(), error.raw_os_error()),
        (Side::Source, Some(5))
    );
    assert_eq!(error.bytes(), 300 * BLOCK as u64);
    assert_eq!(error.report().skipped_bytes(), 0);
}

#[test]
fn bad_blocks_are_not_skipped_for_several_sinks() {
    let (source, sink, other) = (file(b"hello"), file(b""), file(b""));
    let transfer = Transfer::new(&source, &sink).skip_errors(SkipErrors::Adaptive);
    let error = transfer.also_to(&other).run().unwrap_err();
    assert!(error.is_refused(), "{error:#}");
    let why = "the source cannot be used: skip_errors serves one sink only";
    assert_eq!(error.to_string(), why);
    assert_eq!(cursor(&source), 0);
}

/// A pipe has no positions, so that the option changes nothing.
#[test]
fn a_source_without_positions_is_moved_as_without_the_option() {
    let (reader, writer) = crate::endpoints::pipe();
    assert!(crate::files::write_all(&writer, b"hello"));
    drop(writer);
    let sink = file(b"");
    let transfer = Transfer::new(&reader, &sink).skip_errors(SkipErrors::Adaptive);
    assert_eq!(transfer.run().unwrap().bytes(), 5);
    assert_eq!(contents(&sink), b"hello");
}

/// A file in `/proc` has no size that could bound its bad range.
#[test]
fn a_source_that_claims_to_be_empty_fails_where_it_is_bad() {
    let source = File::open("/proc/self/mem").unwrap();
    let sink = file(b"");
    let transfer = Transfer::new(&source, &sink).skip_errors(SkipErrors::Adaptive);
    let error = transfer.run().unwrap_err();
    assert_eq!(
        (error.side(), error.raw_os_error()),
        (Side::Source, Some(5))
    );
}
