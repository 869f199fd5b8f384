//! Sources that other threads extend, truncate or punch: the bytes that arrive are bytes that the
//! source held at some time.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use zcopy::{Sparse, Strategy, Transfer};

use super::numbered_records::{RECORD, Writer, Wrote, compare};
use crate::child_process::Child;
use crate::concurrency::{bounded, scratch_dirs};
use crate::endpoints::pipe;
use crate::files::{
    appending, contents, file_in, pattern, punch_or_zero, read_to_end, reopen, set_cursor,
};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::random::Random;
use crate::refused::allowed;
use crate::skip::{has_program, skip};

/// The file begins with a hole, and has holes as long as fewer bytes than this have been appended.
const HOLE: u64 = 64 << 20;

/// Follows a file to which another thread appends, by one transfer after the other, each to the end
/// of the file.
fn follow(dir: &Path, transfer: impl Fn(&File, &File) -> u64) {
    let source = file_in(dir, b"");
    source.set_len(HOLE).unwrap();
    set_cursor(&source, HOLE);
    let sink = file_in(dir, b"");
    let writer = Writer(1);
    let n_records = 40_000;
    thread::scope(|scope| {
        let appending = File::from(appending(&source));
        let appender = scope.spawn(move || {
            for n in 0..n_records {
                let record = writer.record(n);
                assert_eq!(rustix::io::write(&appending, &record), Ok(record.len()));
            }
        });
        loop {
            let is_last = appender.is_finished();
            transfer(&source, &sink);
            if is_last {
                break;
            }
        }
    });
    let damage = compare(&contents(&sink), &[(writer, Wrote::Stream(n_records))]);
    assert_eq!(damage, Ok(()), "{}", dir.display());
}

#[test]
fn bytes_appended_to_a_sparse_source_do_not_become_a_hole() {
    bounded(|| {
        for dir in scratch_dirs() {
            follow(&dir, |source, sink| zcopy::copy(source, sink).unwrap());
        }
    });
}

#[test]
fn bytes_appended_to_a_sparse_source_do_not_become_a_hole_by_any_strategy() {
    bounded(|| {
        for dir in scratch_dirs() {
            for strategy in allowed([Strategy::SplicePipe, Strategy::Buffered]) {
                follow(&dir, |source, sink| {
                    let transfer = Transfer::new(source, sink).strategy(strategy);
                    match transfer.run() {
                        Ok(report) => report.bytes(),
                        // The strategy stopped early, where more bytes had been appended.
                        Err(error) if error.is_unsuitable() => error.bytes(),
                        Err(error) => panic!("{strategy}: {error:#}"),
                    }
                });
            }
            for sparse in [Sparse::Fill, Sparse::Detect] {
                follow(&dir, |source, sink| {
                    let transfer = Transfer::new(source, sink).sparse(sparse);
                    transfer.run().unwrap().bytes()
                });
            }
        }
    });
}

/// Appends between two calls, right after the transfer has found that there is no more data.
#[test]
fn bytes_appended_between_two_calls_do_not_become_a_hole() {
    if !has_program("strace") {
        return;
    }
    bounded(|| {
        let dir = std::env::temp_dir();
        let source = file_in(&dir, b"");
        source.set_len(HOLE).unwrap();
        source.write_all_at(&Writer(1).record(0), HOLE).unwrap();
        set_cursor(&source, HOLE);
        let sink = file_in(&dir, b"");
        let trace = tempfile::NamedTempFile::new().unwrap();
        let ends = [source.try_clone().unwrap(), sink.try_clone().unwrap()];
        let child = Child::that_pauses_after("lseek", trace.path());
        let copying = thread::spawn(move || {
            let [source, sink] = ends;
            child.run(source.into(), sink.into())
        });
        let mut appending = File::from(appending(&source));
        let mut n_records = 1;
        while !copying.is_finished() {
            let trace = std::fs::read_to_string(trace.path()).unwrap();
            // Append three times, so that the transfer finds an end.
            if trace.matches("ENXIO").count() >= n_records as usize && n_records < 4 {
                appending.write_all(&Writer(1).record(n_records)).unwrap();
                n_records += 1;
            }
            thread::sleep(Duration::from_millis(1));
        }
        if let Err(error) = copying.join().unwrap() {
            skip(&format!("strace cannot delay calls here: {error}"));
            return;
        }
        let found = contents(&sink);
        let n_arrived = (found.len() / RECORD) as u32;
        assert!((1..=n_records).contains(&n_arrived), "{n_arrived} records");
        let wrote = [(Writer(1), Wrote::Stream(n_arrived))];
        assert_eq!(compare(&found, &wrote), Ok(()), "of {n_records} records");
    });
}

/// Asserts that each byte is that of the pattern or a zero.
#[track_caller]
fn assert_pattern_or_zeros(found: &[u8], what: &str) {
    let expected = pattern(found.len());
    let mut words = found.chunks(512).zip(expected.chunks(512)).enumerate();
    let wrong = words.find(|(_, (found, expected))| {
        let mut bytes = found.iter().zip(*expected);
        found != expected && bytes.any(|(found, expected)| *found != 0 && found != expected)
    });
    if let Some((n, _)) = wrong {
        panic!(
            "{what}: near {} are bytes that the file never held",
            n * 512
        );
    }
}

/// A random change to the source by another thread.
type Change = fn(&File, &mut Random);

const LEN: usize = (1 << 20) + 777;

fn punch(file: &File, random: &mut Random) {
    let from = random.below(LEN as u64);
    let len = (1 + random.below(40_000)).min(LEN as u64 - from);
    punch_or_zero(file, from, len);
}

fn truncate_and_append(file: &File, random: &mut Random) {
    let len = random.below(LEN as u64);
    file.set_len(len).unwrap();
    let rest = &pattern(LEN)[len as usize..];
    file.write_all_at(rest, len).unwrap();
}

/// Copies the source again and again while another thread changes it.
fn copy_while(change: Change, check: impl Fn(&[u8], u64) + Send + 'static) {
    bounded(move || {
        for dir in scratch_dirs() {
            let source = file_in(&dir, &pattern(LEN));
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut random = Random::new(3);
                    while !is_over.load(Ordering::Relaxed) {
                        change(&source, &mut random);
                        // A thread that changes a file blocks its readers, so pause.
                        thread::sleep(Duration::from_micros(200));
                    }
                });
                let mut n_copies = 0;
                // The other thread must end even if a copy panics.
                let copies = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    for strategy in allowed([
                        None,
                        Some(Strategy::Buffered),
                        Some(Strategy::SplicePipe),
                        Some(Strategy::CopyFileRange),
                    ]) {
                        let mut n_whole = 0;
                        for _ in 0..4 {
                            let sink = file_in(&dir, b"");
                            let transfer = Transfer::new(&source, &sink).source_offset(0);
                            let transfer = transfer.maybe_strategy(strategy);
                            let bytes = match transfer.run() {
                                Ok(report) => {
                                    n_whole += 1;
                                    report.bytes()
                                }
                                // The strategy stopped where the source ended for a moment, and
                                // the source had become longer when this was confirmed.
                                Err(error) if strategy.is_some() && error.is_unsuitable() => {
                                    error.bytes()
                                }
                                Err(error) => panic!("{strategy:?}: {error:#}"),
                            };
                            check(&contents(&sink), bytes);
                            n_copies += 1;
                        }
                        assert!(n_whole > 0, "{strategy:?} reached no end");
                    }
                }));
                is_over.store(true, Ordering::Relaxed);
                if let Err(panic) = copies {
                    eprintln!("copy {n_copies} in {}", dir.display());
                    std::panic::resume_unwind(panic);
                }
            });
        }
    });
}

#[test]
fn a_source_that_is_punched_gives_all_its_bytes_or_zeros() {
    copy_while(punch, |found, bytes| {
        assert_eq!((found.len(), bytes), (LEN, LEN as u64));
        assert_pattern_or_zeros(found, "punched");
    });
}

/// When the kernel truncates a file within a page it clears the rest of the page, and a read at
/// that moment may see zeros.
#[test]
fn a_source_that_is_truncated_and_rewritten_gives_no_foreign_byte() {
    copy_while(truncate_and_append, |found, bytes| {
        assert_eq!(found.len() as u64, bytes);
        assert!(found.len() <= LEN);
        assert_pattern_or_zeros(found, "cut");
    });
}

/// The transfer waits for its sink when the source is truncated.
#[test]
fn a_source_that_is_truncated_during_a_transfer_ends_early() {
    bounded(|| {
        for dir in scratch_dirs() {
            for stable in [true, false] {
                let source = file_in(&dir, &pattern(LEN));
                let (reader, writer) = pipe();
                let other = source.try_clone().unwrap();
                let (tell, told) = std::sync::mpsc::channel();
                let copying = thread::spawn(move || {
                    tell.send(crate::concurrency::Thread::current()).unwrap();
                    let transfer = Transfer::new(&other, &writer).stable(stable);
                    transfer.grow_pipes(false).run().unwrap()
                });
                told.recv().unwrap().until_asleep();
                source.set_len(700_000).unwrap();
                let found = read_to_end(&reader);
                let report = copying.join().unwrap();
                assert_eq!(report.bytes(), found.len() as u64);
                assert!((700_000..=LEN).contains(&found.len()), "{}", found.len());
                let case = format!("stable: {stable}");
                if stable {
                    crate::files::assert_same(&found, &pattern(found.len()), &case);
                } else {
                    assert_pattern_or_zeros(&found, &case);
                }
            }
        }
    });
}

/// The transfer had reserved a range of the sink for bytes that the truncation removed, and another
/// thread had written behind this range.
#[test]
fn a_truncated_source_leaves_no_gap_before_bytes_of_other_writers() {
    const LENGTHS: [usize; 3] = [100_000, 262_144, 600_000];
    /// The kernel clears the rest of the last page of the file. On tmpfs it clears nothing else.
    const PAGE: usize = 64 << 10;
    let Some(dir) = Fs::Tmpfs.dir() else {
        return;
    };
    for len in LENGTHS {
        let bytes = vec![b's'; len];
        let (source, sink) = (file_in(&dir, &bytes), file_in(&dir, b""));
        let is_over = AtomicBool::new(false);
        let outcomes: Vec<_> = thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    source.set_len(10).unwrap();
                    source.write_all_at(&bytes, 0).unwrap();
                }
            });
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    (&sink).write_all(b"other").unwrap();
                    thread::sleep(Duration::from_micros(20));
                }
            });
            let copy = |_| {
                let own = reopen(&source, OFlags::RDONLY);
                Transfer::new(&own, &sink).run().map(drop)
            };
            // A panic before `is_over` is set would leave the threads running.
            let outcomes = (0..100).map(copy).collect();
            is_over.store(true, Ordering::Relaxed);
            outcomes
        });
        for outcome in outcomes {
            outcome.unwrap_or_else(|error| panic!("{len} bytes: {error:#}"));
        }
        let found = contents(&sink);
        let zeros = found.split(|byte| *byte != 0).map(<[u8]>::len);
        let longest = zeros.max().unwrap_or(0);
        assert!(longest < PAGE, "{len} bytes: {longest} zeros in a row");
    }
}
