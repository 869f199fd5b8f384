//! Holes, and files without positions, on file systems in user space.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::MemfdFlags;
use zcopy::{Ended, Sparse, Strategy, Transfer};

use crate::endpoints::pipe;
use crate::files::{assert_same, contents, file, pattern, read_to_end};
use crate::fuse::{Server, serve};
use crate::options::MaybeOptions as _;
use crate::refused::{allowed, is_allowed};
use crate::skip::report;
use crate::strategies::moved_by;

/// Data, a hole, data and a hole at the end.
fn source() -> (File, Vec<u8>) {
    // The size of a page of tmpfs, at most: a hole begins and ends with a page.
    const PIECE: usize = 2 << 20;
    // A memory file has holes wherever the tests have their files.
    let file = rustix::fs::memfd_create("zcopy", MemfdFlags::CLOEXEC).unwrap();
    let (file, data) = (File::from(file), pattern(PIECE));
    let mut bytes = vec![0; 4 * PIECE];
    file.set_len(bytes.len() as u64).unwrap();
    for start in [0, 2 * PIECE] {
        bytes[start..start + PIECE].copy_from_slice(&data);
        file.write_all_at(&data, start as u64).unwrap();
    }
    (file, bytes)
}

#[test]
fn a_sink_that_ftruncate_may_not_extend_takes_a_sparse_copy() {
    for server in [Server::Ordinary, Server::NeverExtends, Server::NeverSkips] {
        for sparse in [Sparse::Keep, Sparse::Detect] {
            let (source, bytes) = source();
            let Some(sink) = serve(server, b"") else {
                return;
            };
            let what = format!("{server:?}, {sparse:?}");
            let report = Transfer::new(&source, &sink.file).sparse(sparse).run();
            let report = report.unwrap_or_else(|error| panic!("{what}: {error:#}"));
            assert_eq!(
                (report.bytes(), report.ended()),
                (bytes.len() as u64, Ended::Eof),
                "{what}"
            );
            let can_have_holes = server != Server::NeverSkips;
            assert_eq!(report.hole_bytes() > 0, can_have_holes, "{what}");
            assert_same(&sink.bytes(), &bytes, &what);
        }
    }
}

#[test]
fn a_sparse_copy_over_old_bytes_leaves_none_where_the_server_punches_no_part_of_a_block() {
    // The hole at the end is shorter than a block.
    let len = source().1.len() / 4 * 3 + 873;
    for old_len in [len + 5000, len, len - 100] {
        for sparse in [Sparse::Keep, Sparse::Detect] {
            let (source, bytes) = source();
            source.set_len(len as u64).unwrap();
            let Some(sink) = serve(Server::PunchesNoBeginning, &pattern(old_len)) else {
                return;
            };
            let what = format!("{sparse:?} over {old_len} bytes");
            let report = Transfer::new(&source, &sink.file).sparse(sparse).run();
            let report = report.unwrap_or_else(|error| panic!("{what}: {error:#}"));
            assert_eq!(report.bytes(), len as u64, "{what}");
            assert_same(&sink.bytes()[..len], &bytes[..len], &what);
        }
    }
}

/// `pread(2)` fails with `ESPIPE` there, though the file is a regular one that can be spliced from.
#[test]
fn the_end_of_a_file_without_positions_is_confirmed_by_reading_on() {
    let bytes = pattern(200_000);
    let strategies = [None, Some(Strategy::SplicePipe), Some(Strategy::Sendfile)];
    for strategy in allowed(strategies) {
        let Some(source) = serve(Server::HasNoPositions, &bytes) else {
            return;
        };
        let (reader, writer) = pipe();
        let arrived = std::thread::scope(|scope| {
            let reading = scope.spawn(move || read_to_end(&reader));
            let transfer = Transfer::new(&source.file, &writer).maybe_strategy(strategy);
            let report = transfer.run();
            let report = report.unwrap_or_else(|error| panic!("{strategy:?}: {error:#}"));
            assert_eq!(
                (report.bytes(), report.ended()),
                (bytes.len() as u64, Ended::Eof)
            );
            drop(writer);
            reading.join().unwrap()
        });
        assert_same(&arrived, &bytes, &format!("{strategy:?}"));

        if strategy == Some(Strategy::Sendfile) {
            // The kernel needs positions between two files.
            continue;
        }
        let Some(source) = serve(Server::HasNoPositions, &bytes) else {
            return;
        };
        let sink = file(b"");
        let transfer = Transfer::new(&source.file, &sink).maybe_strategy(strategy);
        let report = transfer.run();
        let report = report.unwrap_or_else(|error| panic!("{strategy:?} to a file: {error:#}"));
        assert_eq!(report.bytes(), bytes.len() as u64);
        assert_same(&contents(&sink), &bytes, &format!("{strategy:?} to a file"));
    }
}

/// A splice stops where the file claims to end. The read that confirms this end takes more bytes
/// from the source.
#[test]
fn bytes_that_were_read_to_confirm_the_end_are_handed_back() {
    let bytes = pattern(200_000);
    if is_allowed(Strategy::SplicePipe) {
        let Some(source) = serve(Server::ClaimsHalf, &bytes) else {
            return;
        };
        let sink = file(b"");
        let transfer = Transfer::new(&source.file, &sink).strategy(Strategy::SplicePipe);
        match transfer.run() {
            Err(error) => {
                assert!(error.is_unsuitable(), "{error:#}");
                assert_eq!(error.bytes(), 100_000);
                assert!(!error.undelivered().is_empty());
                let arrived = [&contents(&sink), error.undelivered()].concat();
                assert_same(
                    &arrived,
                    &bytes[..arrived.len()],
                    "delivered and handed back",
                );
            }
            Ok(whole) => {
                report("this kernel splices what is behind the end that a file claims");
                assert_eq!(moved_by(&whole, Strategy::SplicePipe), bytes.len() as u64);
                assert_same(&contents(&sink), &bytes, "by splicing");
            }
        }
    }

    let Some(source) = serve(Server::ClaimsHalf, &bytes) else {
        return;
    };
    let sink = file(b"");
    let report = Transfer::new(&source.file, &sink).run().unwrap();
    assert_eq!(report.bytes(), bytes.len() as u64);
    assert_same(&contents(&sink), &bytes, "by the plan");
}
