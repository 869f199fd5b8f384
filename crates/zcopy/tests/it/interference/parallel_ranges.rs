//! Several transfers at offsets, each with its own range of one file, while other threads extend
//! the file or punch holes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;

use rustix::fs::OFlags;
use zcopy::{Sparse, Transfer};

use super::numbered_records::{RECORD, Writer, Wrote, compare};
use crate::concurrency::{bounded, scratch_dirs};
use crate::files::{assert_same, contents, file_in, pattern, punch_or_zero, reopen};
use crate::mounts::Fs;
use crate::random::Random;

/// Bytes of the source. The last range ends within a block.
const LEN: usize = (64 << 10) + 1000;
/// The number of ranges that are copied at the same time.
const RANGES: usize = 6;
const BLOCK: usize = 4096;

/// The descriptors of the sink.
#[derive(Clone, Copy, Debug)]
enum Openings {
    /// All transfers use one descriptor.
    Shared,
    /// Each transfer opens the sink for itself.
    Separate,
}

/// A change to the sink by another thread during the transfers.
#[derive(Clone, Copy, Debug)]
enum Neighbour {
    Nobody,
    /// Writes records behind all ranges, so that the file becomes longer.
    Extends,
    /// Punches holes into data behind all ranges.
    Punches,
}

/// The directories, and the number of rounds in each: fewer on the file systems that share blocks.
fn dirs() -> Vec<(PathBuf, usize)> {
    let mounted = [Fs::Btrfs, Fs::Xfs].into_iter().filter_map(Fs::dir);
    let scratch = scratch_dirs().into_iter().map(|dir| (dir, 200));
    scratch.chain(mounted.map(|dir| (dir, 30))).collect()
}

/// Bytes with blocks of zeros: some at random, and the last ones.
fn with_holes(random: &mut Random) -> Vec<u8> {
    let mut bytes = pattern(LEN);
    let n_blocks = LEN.div_ceil(BLOCK);
    for (n, block) in bytes.chunks_mut(BLOCK).enumerate() {
        if random.one_in(2) || n + 3 >= n_blocks {
            block.fill(0);
        }
    }
    bytes
}

/// A file in which whole blocks of zeros are holes.
fn sparse_file(dir: &std::path::Path, bytes: &[u8]) -> File {
    let file = file_in(dir, b"");
    file.set_len(bytes.len() as u64).unwrap();
    for (n, block) in bytes.chunks(BLOCK).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            file.write_all_at(block, (n * BLOCK) as u64).unwrap();
        }
    }
    file
}

/// Copies the ranges of a file into the same ranges of another, all at the same time, in many
/// rounds.
fn copy_in_ranges(sparse: Sparse, openings: Openings, neighbour: Neighbour) {
    bounded(move || {
        let mut random = Random::new(1);
        for (dir, n_rounds) in dirs() {
            let bytes = with_holes(&mut random);
            let source = sparse_file(&dir, &bytes);
            let sink = file_in(&dir, b"");
            for _ in 0..n_rounds {
                sink.set_len(0).unwrap();
                copy_once(&source, &sink, sparse, openings, neighbour, &mut random);
                let mut found = contents(&sink);
                let case = format!("{sparse:?} {openings:?} {neighbour:?} {}", dir.display());
                let behind = found.split_off(found.len().min(LEN));
                assert_same(&found, &bytes, &case);
                neighbour.check(&behind, &case);
            }
        }
    });
}

fn copy_once(
    source: &File,
    sink: &File,
    sparse: Sparse,
    openings: Openings,
    neighbour: Neighbour,
    random: &mut Random,
) {
    let mut cuts: Vec<u64> = (1..RANGES).map(|_| random.below(LEN as u64)).collect();
    if random.one_in(2) {
        for cut in &mut cuts {
            *cut &= !(BLOCK as u64 - 1);
        }
    }
    cuts.extend([0, LEN as u64]);
    cuts.sort_unstable();
    neighbour.prepare(sink);
    let start = Barrier::new(RANGES + 1);
    thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            neighbour.act(sink);
        });
        for cut in cuts.windows(2) {
            let (from, len, start) = (cut[0], cut[1] - cut[0], &start);
            scope.spawn(move || {
                let own;
                let sink = match openings {
                    Openings::Shared => sink,
                    Openings::Separate => {
                        own = File::from(reopen(sink, OFlags::WRONLY));
                        &own
                    }
                };
                let transfer = Transfer::new(source, sink)
                    .source_offset(from)
                    .sink_offset(from)
                    .limit(len)
                    .sparse(sparse);
                start.wait();
                assert_eq!(transfer.run().unwrap().bytes(), len);
            });
        }
    });
}

impl Neighbour {
    const RECORDS: u32 = 50;
    const BEHIND: usize = 32 << 10;

    fn prepare(self, sink: &File) {
        if matches!(self, Self::Punches) {
            let behind = vec![b'x'; Self::BEHIND];
            sink.write_all_at(&behind, LEN as u64).unwrap();
        }
    }

    fn act(self, sink: &File) {
        match self {
            Self::Nobody => {}
            Self::Extends => {
                for n in 0..Self::RECORDS {
                    let at = LEN + n as usize * RECORD;
                    sink.write_all_at(&Writer(1).record(n), at as u64).unwrap();
                }
            }
            Self::Punches => {
                for at in (0..Self::BEHIND).step_by(2048) {
                    punch_or_zero(sink, (LEN + at) as u64, 1024);
                }
            }
        }
    }

    fn check(self, behind: &[u8], case: &str) {
        match self {
            Self::Nobody => assert_eq!(behind.len(), 0, "{case}"),
            Self::Extends => {
                let wrote = [(Writer(1), Wrote::Records(Self::RECORDS))];
                assert_eq!(compare(behind, &wrote), Ok(()), "{case}");
            }
            Self::Punches => {
                let punched = [[0; 1024], [b'x'; 1024]].concat();
                let expected = punched.repeat(Self::BEHIND / 2048);
                assert_same(behind, &expected, case);
            }
        }
    }
}

macro_rules! parallel_ranges {
    ($($name:ident: $sparse:ident, $openings:ident, $neighbour:ident;)*) => {$(
        #[test]
        fn $name() {
            copy_in_ranges(Sparse::$sparse, Openings::$openings, Neighbour::$neighbour);
        }
    )*};
}

parallel_ranges! {
    parallel_ranges_of_a_sparse_file_are_exact: Keep, Shared, Nobody;
    parallel_ranges_through_separate_openings_are_exact: Keep, Separate, Nobody;
    parallel_ranges_with_detected_zeros_are_exact: Detect, Shared, Nobody;
    parallel_ranges_with_detected_zeros_through_separate_openings_are_exact:
        Detect, Separate, Nobody;
    parallel_ranges_with_filled_holes_are_exact: Fill, Separate, Nobody;
    a_trailing_hole_cuts_off_no_bytes_of_another_writer: Keep, Shared, Extends;
    a_trailing_hole_of_detected_zeros_cuts_off_no_bytes_of_another_writer:
        Detect, Separate, Extends;
    written_zeros_cut_off_no_bytes_of_another_writer: Fill, Shared, Extends;
    parallel_ranges_beside_punched_holes_are_exact: Keep, Separate, Punches;
    parallel_ranges_with_detected_zeros_beside_punched_holes_are_exact: Detect, Shared, Punches;
}

/// The source is one hole, so that the transfers only extend the sink.
fn copy_zeros_only(sparse: Sparse) {
    bounded(move || {
        for (dir, n_rounds) in dirs() {
            let source = file_in(&dir, b"");
            source.set_len(LEN as u64).unwrap();
            let sink = file_in(&dir, b"");
            let mut random = Random::new(2);
            for _ in 0..n_rounds {
                sink.set_len(0).unwrap();
                let (openings, neighbour) = (Openings::Separate, Neighbour::Extends);
                copy_once(&source, &sink, sparse, openings, neighbour, &mut random);
                let found = contents(&sink);
                let case = format!("{sparse:?} in {}", dir.display());
                assert!(found[..LEN].iter().all(|byte| *byte == 0), "{case}");
                Neighbour::Extends.check(&found[LEN..], &case);
            }
        }
    });
}

#[test]
fn a_hole_alone_cuts_off_no_bytes_of_another_writer() {
    copy_zeros_only(Sparse::Keep);
}

#[test]
fn zeros_that_become_a_hole_cut_off_no_bytes_of_another_writer() {
    copy_zeros_only(Sparse::Detect);
}
