//! Transfers at offsets leave the cursors alone that others read and write by, also for a moment.

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

/// Data and holes in turns of two blocks.
fn striped(len: usize) -> Vec<u8> {
    let mut bytes = pattern(len);
    for holes in bytes.chunks_mut(4 * BLOCK) {
        let len = holes.len().min(2 * BLOCK);
        holes[..len].fill(0);
    }
    bytes
}

/// The same bytes, whole blocks of zeros being holes.
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

/// Reads through the shared cursor while the transfers run, and compares what it gets.
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
                        // A cursor that is put back may make it read for ever.
                        if read.len() > bytes.len() {
                            break;
                        }
                    }
                    let place = cursor(&source);
                    let is_same = read == bytes && place == bytes.len() as u64;
                    if !is_same {
                        // So that the other thread ends.
                        is_read.store(true, Ordering::Relaxed);
                    }
                    assert_same(&read, &bytes, &format!("read in {}", dir.display()));
                    assert_eq!(place, bytes.len() as u64, "the cursor");
                }
                is_read.store(true, Ordering::Relaxed);
            });
        }
    });
}

#[test]
fn looking_for_holes_does_not_disturb_who_reads_by_the_cursor() {
    read_beside(|source, sink| {
        let transfer = Transfer::new(source, sink).source_offset(0).sink_offset(0);
        assert_eq!(transfer.run().unwrap().bytes(), 1 << 20);
    });
}

#[test]
fn looking_for_holes_by_any_strategy_does_not_disturb_who_reads_by_the_cursor() {
    for strategy in allowed([Strategy::Buffered, Strategy::SplicePipe]) {
        read_beside(move |source, sink| {
            let transfer = Transfer::new(source, sink).strategy(strategy);
            let transfer = transfer.source_offset(4096).sink_offset(0);
            assert_eq!(transfer.run().unwrap().bytes(), (1 << 20) - 4096);
        });
    }
}

#[test]
fn filling_holes_does_not_disturb_who_reads_by_the_cursor() {
    read_beside(|source, sink| {
        let transfer = Transfer::new(source, sink).sparse(Sparse::Fill);
        let transfer = transfer.source_offset(0).sink_offset(0);
        assert_eq!(transfer.run().unwrap().bytes(), 1 << 20);
    });
}

/// Whoever writes by the sink's cursor finds it where it was.
#[test]
fn making_holes_at_an_offset_does_not_disturb_who_writes_by_the_cursor() {
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

/// Into a pipe there are no holes; the cursor stays alone all the same.
#[test]
fn reading_at_an_offset_into_a_pipe_does_not_disturb_who_reads_by_the_cursor() {
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
