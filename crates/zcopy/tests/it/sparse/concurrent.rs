//! Sparse transfers while other threads use the same files.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::OFlags;
use zcopy::{Sparse, Transfer};

use crate::files::{
    appending, assert_same, contents, cursor, file_in, pattern, reopen, set_cursor,
};
use crate::mounts::Fs;

const PIECE: usize = 64 << 10;
/// The pieces of a part: one of data, and a hole of three.
const PIECES: usize = 4;
const PARTS: usize = 4;

/// Parts that begin with data and end in a hole.
fn source(fs: Fs) -> Option<(File, Vec<u8>)> {
    let file = file_in(&fs.dir()?, b"");
    let mut bytes = vec![0; PARTS * PIECES * PIECE];
    let data = pattern(PIECE);
    file.set_len(bytes.len() as u64).unwrap();
    for part in 0..PARTS {
        let start = part * PIECES * PIECE;
        bytes[start..start + PIECE].copy_from_slice(&data);
        file.write_all_at(&data, start as u64).unwrap();
    }
    Some((file, bytes))
}

/// Each transfer may find the sink shorter than another one has just made it. It must not shorten
/// the sink.
#[test]
fn parallel_transfers_by_offsets_into_one_file_lose_nothing() {
    const ROUNDS: usize = 100;
    for fs in [Fs::Ext4, Fs::Tmpfs] {
        for (sparse, reopens) in [
            (Sparse::Keep, false),
            (Sparse::Keep, true),
            (Sparse::Detect, false),
        ] {
            let Some((source, bytes)) = source(fs) else {
                continue;
            };
            for round in 0..ROUNDS {
                let sink = file_in(&fs.dir().unwrap(), b"");
                std::thread::scope(|scope| {
                    for part in 0..PARTS {
                        let (source, sink) = (&source, &sink);
                        scope.spawn(move || {
                            let len = (PIECES * PIECE) as u64;
                            let start = part as u64 * len;
                            let own = reopen(sink, OFlags::RDWR);
                            let shared = std::os::fd::AsFd::as_fd(sink);
                            let sink = if reopens {
                                std::os::fd::AsFd::as_fd(&own)
                            } else {
                                shared
                            };
                            let report = Transfer::new(source, &sink)
                                .source_offset(start)
                                .sink_offset(start)
                                .limit(len)
                                .sparse(sparse)
                                .run()
                                .unwrap();
                            assert_eq!(report.bytes(), len);
                        });
                    }
                });
                let what = format!("{fs:?}, {sparse:?}, round {round}");
                assert_same(&contents(&sink), &bytes, &what);
            }
        }
    }
}

/// Transfers at offsets never move the cursor through which another thread reads.
#[test]
fn a_search_for_holes_by_offset_does_not_disturb_a_reader_at_the_cursor() {
    const ROUNDS: usize = 300;
    let Some((source, bytes)) = source(Fs::Tmpfs) else {
        return;
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut buffer = vec![0; 4096];
            let mut position = 0;
            while !is_over.load(Ordering::Relaxed) {
                let n = rustix::io::read(&source, &mut buffer).unwrap();
                let expected = &bytes[position..(position + buffer.len()).min(bytes.len())];
                if buffer[..n] != *expected {
                    return false;
                }
                position += n;
                if n == 0 {
                    position = 0;
                    set_cursor(&source, 0);
                }
            }
            true
        });
        for _ in 0..ROUNDS {
            let sink = file_in(&Fs::Tmpfs.dir().unwrap(), b"");
            let report = Transfer::new(&source, &sink)
                .source_offset(0)
                .run()
                .unwrap();
            assert_eq!(report.bytes(), bytes.len() as u64);
            assert!(report.hole_bytes() > 0);
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(reading.join().unwrap(), "the reader got other bytes");
    });
}

/// Another thread appends to a sparse log during the copy. The copy equals the beginning of the
/// log.
#[test]
fn a_copy_of_a_sparse_source_that_grows_is_a_prefix_of_it() {
    const ROUNDS: usize = 300;
    let tail = pattern(5000);
    for fs in [Fs::Ext4, Fs::Tmpfs] {
        for round in 0..ROUNDS {
            let Some(dir) = fs.dir() else {
                continue;
            };
            let source = file_in(&dir, &pattern(40_960));
            source.set_len(1 << 20).unwrap();
            let sink = file_in(&dir, b"");
            let appender = appending(&source);
            let report = std::thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..20 {
                        rustix::io::write(&appender, &tail).unwrap();
                    }
                });
                Transfer::new(&source, &sink).run().unwrap()
            });
            let (arrived, all) = (contents(&sink), contents(&source));
            assert_eq!(report.bytes(), arrived.len() as u64);
            assert_eq!(report.bytes(), cursor(&source));
            let expected = &all[..arrived.len()];
            assert_same(&arrived, expected, &format!("{fs:?}, round {round}"));
        }
    }
}
