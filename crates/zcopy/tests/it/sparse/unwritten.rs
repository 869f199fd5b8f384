//! Blocks that were allocated by `fallocate(2)` and never written.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use rustix::fs::FallocateFlags;
use zcopy::{Sparse, Transfer};

use super::MIB;
use crate::endpoints::null;
use crate::files::{allocated, assert_same, contents, file_in, pattern};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::strategies::every_strategy;

/// 4 MiB of allocated blocks, of which only the third MiB has been written, and the bytes.
fn unwritten(fs: Fs) -> Option<(File, Vec<u8>)> {
    let file = file_in(&fs.dir()?, b"");
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 4 * MIB as u64).unwrap();
    let mut bytes = vec![0; 4 * MIB];
    bytes[2 * MIB..3 * MIB].copy_from_slice(&pattern(MIB));
    file.write_all_at(&bytes[2 * MIB..3 * MIB], 2 * MIB as u64)
        .unwrap();
    Some((file, bytes))
}

#[test]
fn keep_unwritten_makes_holes_of_unwritten_blocks() {
    for fs in Fs::ALL {
        for strategy in every_strategy() {
            let Some((source, bytes)) = unwritten(fs) else {
                continue;
            };
            let what = format!("{fs:?}, {strategy:?}");
            assert!(allocated(&source) >= bytes.len() as u64, "{what}");
            let sink = file_in(&fs.dir().unwrap(), b"");
            let transfer = Transfer::new(&source, &sink)
                .sparse(Sparse::KeepUnwritten)
                .maybe_strategy(strategy);
            let report = match transfer.run() {
                Err(error) if error.is_unsuitable() => continue,
                report => report.unwrap_or_else(|error| panic!("{what}: {error:#}")),
            };
            assert_eq!(report.bytes(), bytes.len() as u64, "{what}");
            assert_same(&contents(&sink), &bytes, &what);
            if report.strategy() != Some(zcopy::Strategy::Reflink) {
                assert_eq!(report.hole_bytes(), 3 * MIB as u64, "{what}");
                sink.sync_all().unwrap();
                assert!(allocated(&sink) < 2 * MIB as u64, "{what}");
            }
        }
    }
}

#[test]
fn unwritten_blocks_are_shown_as_zeros_and_not_read() {
    for fs in Fs::ALL {
        let Some((source, bytes)) = unwritten(fs) else {
            continue;
        };
        let null = null();
        let mut seen = Vec::new();
        let report = Transfer::new(&source, &null)
            .sparse(Sparse::KeepUnwritten)
            .inspect(|bytes| seen.extend_from_slice(bytes))
            .run()
            .unwrap();
        assert_same(&seen, &bytes, &format!("{fs:?}"));
        assert_eq!(report.hole_bytes(), 3 * MIB as u64, "{fs:?}");
    }
}
