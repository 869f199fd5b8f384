//! Transfers at offsets never move the cursors through which others read and write.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use zcopy::{Sparse, Strategy, Transfer};

use crate::concurrency::{bounded, scratch_dirs};
use crate::files::{assert_same, contents, cursor, file_in, pattern, read_to_end, set_cursor};
use crate::mounts::Fs;
use crate::refused::allowed;

const BLOCK: usize = 4096;

/// Two blocks of zeros and two blocks of data, in turns.
fn striped(len: usize) -> Vec<u8> {
    let mut bytes = pattern(len);
    for holes in bytes.chunks_mut(4 * BLOCK) {
        let len = holes.len().min(2 * BLOCK);
        holes[..len].fill(0);
    }
    bytes
}

/// A file with these bytes, in which the blocks of zeros are holes.
fn striped_file(dir: &std::path::Path, bytes: &[u8]) -> File {
    let file = file_in(dir, b"");
    file.set_len(bytes.len() as u64).unwrap();
    for (n, data) in bytes.chunks(2 * BLOCK).enumerate() {
        if n % 2 == 1 {
            file.write_all_at(data, (n * 2 * BLOCK) as u64).unwrap();
        }
    }
    file
}

/// Reads through the shared cursor while transfers run, and compares the bytes.
fn read_beside(transfer: impl Fn(&File, &File) + Send + Sync + Copy + 'static) {
    bounded(move || {
        let bytes = striped(1 << 20);
        let btrfs = Fs::Btrfs.dir();
        for dir in scratch_dirs().into_iter().chain(btrfs) {
            let source = striped_file(&dir, &bytes);
            let is_read = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let sink = file_in(&dir, b"");
                    while !is_read.load(Ordering::Relaxed) {
                        transfer(&source, &sink);
                    }
                });
                for _ in 0..10 {
                    set_cursor(&source, 0);
                    let mut read = Vec::new();
                    let mut buffer = [0; 1000];
                    while let n @ 1.. = rustix::io::read(&source, &mut buffer).unwrap() {
                        read.extend_from_slice(&buffer[..n]);
                        // If a transfer moved the cursor back, the reads might never end.
                        if read.len() > bytes.len() {
                            break;
                        }
                    }
                    let end = cursor(&source);
                    let is_same = read == bytes && end == bytes.len() as u64;
                    if !is_same {
                        // Ends the other thread before the assertions fail.
                        is_read.store(true, Ordering::Relaxed);
                    }
                    assert_same(&read, &bytes, &format!("read in {}", dir.display()));
                    assert_eq!(end, bytes.len() as u64, "the cursor");
                }
                is_read.store(true, Ordering::Relaxed);
            });
        }
    });
}

#[test]
fn looking_for_holes_does_not_disturb_a_reader_at_the_cursor() {
    read_beside(|source, sink| {
        let transfer = Transfer::new(source, sink).source_offset(0).sink_offset(0);
        assert_eq!(transfer.run().unwrap().bytes(), 1 << 20);
    });
}

#[test]
fn looking_for_holes_by_any_strategy_does_not_disturb_a_reader_at_the_cursor() {
    for strategy in allowed([Strategy::Buffered, Strategy::SplicePipe]) {
        read_beside(move |source, sink| {
            let transfer = Transfer::new(source, sink).strategy(strategy);
            let transfer = transfer.source_offset(4096).sink_offset(0);
            assert_eq!(transfer.run().unwrap().bytes(), (1 << 20) - 4096);
        });
    }
}

#[test]
fn filling_holes_does_not_disturb_a_reader_at_the_cursor() {
    read_beside(|source, sink| {
        let transfer = Transfer::new(source, sink).sparse(Sparse::Fill);
        let transfer = transfer.source_offset(0).sink_offset(0);
        assert_eq!(transfer.run().unwrap().bytes(), 1 << 20);
    });
}

/// A thread that writes at the cursor of the sink finds it unchanged.
#[test]
fn making_holes_at_an_offset_does_not_disturb_a_writer_at_the_cursor() {
    bounded(|| {
        let bytes = striped(1 << 20);
        let written = pattern(200_000);
        for dir in scratch_dirs() {
            let source = striped_file(&dir, &bytes);
            for sparse in [Sparse::Keep, Sparse::Detect, Sparse::Fill] {
                let sink = file_in(&dir, b"");
                let offset = 1 << 20;
                thread::scope(|scope| {
                    scope.spawn(|| {
                        for piece in written.chunks(100) {
                            assert_eq!(rustix::io::write(&sink, piece), Ok(piece.len()));
                        }
                    });
                    for _ in 0..5 {
                        let transfer = Transfer::new(&source, &sink).sparse(sparse);
                        let transfer = transfer.source_offset(0).sink_offset(offset);
                        assert_eq!(transfer.run().unwrap().bytes(), 1 << 20);
                    }
                });
                let found = contents(&sink);
                assert_same(&found[..written.len()], &written, "by the cursor");
                assert_same(&found[offset as usize..], &bytes, "at the offset");
                assert_eq!(cursor(&sink), written.len() as u64);
            }
        }
    });
}

/// A pipe has no holes; the cursor of the source must not move either.
#[test]
fn reading_at_an_offset_into_a_pipe_does_not_disturb_a_reader_at_the_cursor() {
    read_beside(|source, _| {
        let (reader, writer) = crate::endpoints::pipe();
        thread::scope(|scope| {
            let read = scope.spawn(|| read_to_end(&reader).len());
            let transfer = Transfer::new(source, &writer).source_offset(10_000);
            transfer.run().unwrap();
            drop(writer);
            assert_eq!(read.join().unwrap(), (1 << 20) - 10_000);
        });
    });
}
