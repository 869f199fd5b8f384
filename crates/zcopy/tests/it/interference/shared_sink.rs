//! Transfers into one open file that others write to through the same cursor.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use rustix::net::SocketType;
use zcopy::{FilterTransfer, Repeat, Series, Strategy, Transfer};

use super::numbered_records::{RECORD, Writer, Wrote, compare};
use crate::concurrency::{bounded, scratch_dirs};
use crate::endpoints::{null, pipe, tcp, terminal, unix};
use crate::files::{contents, cursor, file_in, write_all};
use crate::options::MaybeOptions as _;
use crate::refused::needs;

/// A writer to the shared sink.
#[derive(Clone, Copy, Debug)]
pub(super) enum Actor {
    /// A transfer from a pipe.
    Pipe(Option<Strategy>),
    UnixStream,
    Tcp,
    Terminal,
    /// A transfer from a file of its own.
    File(Option<Strategy>),
    /// A transfer from a file of its own at an offset.
    FileAtOffset,
    /// A transfer to several sinks, of which the shared one is the first.
    FanOutFirst,
    /// A transfer to several sinks, of which the shared one is the last.
    FanOutLast,
    Repeat,
    FilterTransfer,
    FilterFile,
    Series,
    /// A loop of write(2) instead of a transfer, with a record per call.
    Write,
}

/// Reader and writer of the channel from which an actor reads.
pub(super) fn channel(actor: Actor) -> (OwnedFd, OwnedFd) {
    match actor {
        Actor::UnixStream => unix(SocketType::STREAM),
        Actor::Tcp => tcp(),
        Actor::Terminal => {
            let (master, slave) = terminal();
            (slave, master)
        }
        _ => pipe(),
    }
}

impl Actor {
    /// The number of records that an actor writes: fewer for a terminal, which takes 4 KiB at a
    /// time, and for a series, which has a file for every few records.
    fn n_records(self) -> u32 {
        match self {
            Self::Terminal => 1 << 10,
            Self::Series => 2 << 10,
            Self::Write => 4 << 10,
            _ => 8 << 10,
        }
    }

    fn wrote(self) -> Wrote {
        match self {
            Self::Write => Wrote::Records(self.n_records()),
            Self::Repeat => Wrote::Copies(self.n_records()),
            _ => Wrote::Stream(self.n_records()),
        }
    }

    /// Prepares the source, waits for the other actors, and writes the records to the sink. Returns
    /// the number of bytes that it claims to have written.
    fn write_records(self, writer: Writer, sink: &File, start: &Barrier) -> u64 {
        let records = writer.records(self.n_records());
        let source = || file_in(&std::env::temp_dir(), &records);
        match self {
            Self::File(strategy) => {
                let source = source();
                start.wait();
                run(Transfer::new(&source, sink), strategy)
            }
            Self::FileAtOffset => {
                let source = source();
                start.wait();
                run(Transfer::new(&source, sink).source_offset(0), None)
            }
            Self::Repeat => {
                let record = writer.record(0);
                let repeat = Repeat::new(&record).limit(records.len() as u64);
                start.wait();
                repeat.run(sink).unwrap().bytes()
            }
            Self::FilterFile => {
                let source = source();
                start.wait();
                filter(&source, sink).unwrap()
            }
            Self::Series => {
                let pieces = records.chunks(33 * RECORD);
                let sources: Vec<_> = pieces
                    .map(|piece| file_in(&std::env::temp_dir(), piece))
                    .collect();
                start.wait();
                let series = Series::new(sink);
                let run = |source| series.transfer(source).run().unwrap().bytes();
                sources.iter().map(run).sum()
            }
            Self::Write => {
                start.wait();
                for record in records.chunks(RECORD) {
                    assert_eq!(rustix::io::write(sink, record), Ok(RECORD));
                }
                records.len() as u64
            }
            _ => self.write_from_a_channel(&records, sink, start),
        }
    }

    fn write_from_a_channel(self, records: &[u8], sink: &File, start: &Barrier) -> u64 {
        let (source, feed) = channel(self);
        let limit = records.len() as u64;
        thread::scope(|scope| {
            // A terminal that is hung up may lose unread bytes.
            let _until_read = matches!(self, Self::Terminal).then(|| feed.try_clone().unwrap());
            scope.spawn(move || {
                // Messages first, then many bytes at once.
                let (messages, bulk) = records.split_at(records.len() / 8);
                for message in messages.chunks(7 * RECORD) {
                    assert!(write_all(&feed, message));
                }
                assert!(write_all(&feed, bulk));
            });
            let null = null();
            start.wait();
            match self {
                Self::Pipe(strategy) => run(Transfer::new(&source, sink), strategy),
                Self::FanOutFirst => run(Transfer::new(&source, sink).also_to(&null), None),
                Self::FanOutLast => run(Transfer::new(&source, &null).also_to(sink), None),
                Self::FilterTransfer => filter(&source, sink).unwrap(),
                _ => run(Transfer::new(&source, sink).limit(limit), None),
            }
        })
    }
}

fn run(transfer: Transfer<'_, impl AsFd, impl AsFd>, strategy: Option<Strategy>) -> u64 {
    let transfer = transfer.maybe_strategy(strategy);
    transfer.run().unwrap().bytes()
}

pub(super) fn filter(source: &impl AsFd, sink: &File) -> zcopy::Result<u64> {
    let mut filter = FilterTransfer::new(sink, super::identity);
    let bytes = filter.run(source)?.bytes();
    Ok(bytes + filter.finish()?.bytes())
}

/// Lets all actors write to one open file at the same time, several times on each file system.
fn share_a_sink(actors: &'static [Actor]) {
    let strategies = actors.iter().filter_map(|actor| match actor {
        Actor::Pipe(strategy) | Actor::File(strategy) => *strategy,
        _ => None,
    });
    if !needs(&strategies.collect::<Vec<_>>()) {
        return;
    }
    bounded(move || {
        for dir in scratch_dirs() {
            for _ in 0..3 {
                share_a_sink_in(&dir, actors);
            }
        }
    });
}

fn share_a_sink_in(dir: &Path, actors: &[Actor]) {
    let sink = file_in(dir, b"");
    let start = Barrier::new(actors.len());
    let writers: Vec<_> = (1..).map(Writer).zip(actors).collect();
    let claimed: u64 = thread::scope(|scope| {
        let write_records = |(writer, actor): (Writer, &Actor)| {
            let (actor, start, sink) = (*actor, &start, sink.try_clone().unwrap());
            scope.spawn(move || actor.write_records(writer, &sink, start))
        };
        let threads: Vec<_> = writers.iter().copied().map(write_records).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    let found = contents(&sink);
    let wrote: Vec<_> = writers
        .iter()
        .map(|(w, actor)| (*w, actor.wrote()))
        .collect();
    if let Err(damage) = compare(&found, &wrote) {
        panic!("{actors:?} in {}: {damage}", dir.display());
    }
    assert_eq!(found.len() as u64, claimed, "{actors:?}");
    assert_eq!(cursor(&sink), claimed, "{actors:?}: the shared cursor");
}

macro_rules! sharing_a_sink {
    ($($name:ident: [$($actor:expr),*];)*) => {$(
        #[test]
        fn $name() {
            use Actor::*;
            share_a_sink(&[$($actor),*]);
        }
    )*};
}

sharing_a_sink! {
    a_pipe_beside_write_loses_nothing: [Pipe(None), Write];
    two_pipes_lose_nothing: [Pipe(None), Pipe(None)];
    two_pipes_beside_write_lose_nothing: [Pipe(None), Pipe(None), Write];
    two_pipes_by_a_private_pipe_lose_nothing:
        [Pipe(Some(Strategy::SplicePipe)), Pipe(Some(Strategy::SplicePipe))];
    two_pipes_read_and_written_lose_nothing:
        [Pipe(Some(Strategy::Buffered)), Pipe(Some(Strategy::Buffered)), Write];
    a_unix_socket_and_tcp_lose_nothing: [UnixStream, Tcp, Write];
    a_terminal_beside_a_pipe_loses_nothing: [Terminal, Pipe(None)];
    two_files_lose_nothing: [File(None), File(None)];
    two_files_beside_write_lose_nothing: [File(None), FileAtOffset, Write];
    two_files_by_a_private_pipe_lose_nothing:
        [File(Some(Strategy::SplicePipe)), File(Some(Strategy::SplicePipe)), Write];
    two_fan_outs_lose_nothing: [FanOutFirst, FanOutLast, Write];
    a_fan_out_beside_a_pipe_loses_nothing: [FanOutLast, Pipe(None)];
    two_patterns_lose_nothing: [Repeat, Repeat, Write];
    a_pattern_beside_a_pipe_loses_nothing: [Repeat, Pipe(None)];
    filtered_bytes_lose_nothing: [FilterTransfer, FilterFile, Write];
    filtered_bytes_beside_a_pipe_lose_nothing: [FilterTransfer, Pipe(None)];
    two_series_lose_nothing: [Series, Series, Write];
    all_kinds_of_transfers_lose_nothing:
        [Pipe(None), UnixStream, File(None), FanOutFirst, Repeat, FilterTransfer, Write];
}

/// The plan may use `copy_file_range` between files of one file system.
#[test]
fn two_files_by_copy_file_range_lose_nothing() {
    if !needs(&[Strategy::CopyFileRange]) {
        return;
    }
    bounded(|| {
        for dir in scratch_dirs() {
            for _ in 0..3 {
                let sink = file_in(&dir, b"");
                let (one, two) = (Writer(1), Writer(2));
                thread::scope(|scope| {
                    for writer in [one, two] {
                        let (sink, dir) = (sink.try_clone().unwrap(), &dir);
                        scope.spawn(move || {
                            let source = file_in(dir, &writer.records(8 << 10));
                            let transfer = Transfer::new(&source, &sink);
                            run(transfer, Some(Strategy::CopyFileRange))
                        });
                    }
                });
                let wrote = [one, two].map(|writer| (writer, Wrote::Stream(8 << 10)));
                let found = contents(&sink);
                assert_eq!(compare(&found, &wrote), Ok(()), "{}", dir.display());
                assert_eq!(cursor(&sink), found.len() as u64);
            }
        }
    });
}

/// The transfer steps over a hole by moving the cursor, and extends the file at the end. Another
/// thread writes in between.
#[test]
fn a_hole_does_not_overwrite_bytes_of_others_at_the_same_cursor() {
    bounded(|| {
        for dir in scratch_dirs() {
            let source = file_in(&dir, b"");
            source.set_len(1 << 20).unwrap();
            let sink = file_in(&dir, b"");
            let writer = Writer(1);
            let n_records = 2 << 10;
            thread::scope(|scope| {
                let shared = sink.try_clone().unwrap();
                scope.spawn(move || {
                    for n in 0..n_records {
                        assert_eq!(rustix::io::write(&shared, &writer.record(n)), Ok(RECORD));
                    }
                });
                for _ in 0..8 {
                    let transfer = Transfer::new(&source, &sink).source_offset(0);
                    assert_eq!(transfer.run().unwrap().bytes(), 1 << 20);
                }
            });
            let found = contents(&sink);
            let total = (8 << 20) + n_records as usize * RECORD;
            assert_eq!((found.len(), cursor(&sink)), (total, total as u64));
            let records: Vec<u8> = found.into_iter().filter(|byte| *byte != 0).collect();
            assert_eq!(
                compare(&records, &[(writer, Wrote::Records(n_records))]),
                Ok(())
            );
        }
    });
}

/// Each transfer has its own opening of the file with `O_APPEND`, so that each write goes to the
/// end.
#[test]
fn appending_transfers_do_not_overwrite_each_other() {
    bounded(|| {
        for dir in scratch_dirs() {
            let sink = file_in(&dir, b"");
            let append = || {
                let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::APPEND;
                File::from(crate::files::reopen(&sink, flags))
            };
            let actors = [Actor::Pipe(None), Actor::File(None), Actor::Write];
            let writers: Vec<_> = (1..).map(Writer).zip(actors).collect();
            let start = Barrier::new(writers.len());
            thread::scope(|scope| {
                for (writer, actor) in writers.clone() {
                    let (sink, start) = (append(), &start);
                    scope.spawn(move || actor.write_records(writer, &sink, start));
                }
            });
            let wrote: Vec<_> = writers
                .iter()
                .map(|(w, actor)| (*w, actor.wrote()))
                .collect();
            assert_eq!(compare(&contents(&sink), &wrote), Ok(()));
        }
    });
}

/// The bytes of transfers into one pipe may be mixed; none is lost.
#[test]
fn two_transfers_and_a_writer_on_one_pipe_or_socket_lose_nothing() {
    bounded(|| {
        for (reader, sink) in [pipe(), unix(SocketType::STREAM), tcp()] {
            let actors = [
                Actor::Pipe(None),
                Actor::File(None),
                Actor::UnixStream,
                Actor::Repeat,
                Actor::Write,
            ];
            let writers: Vec<_> = (1..).map(Writer).zip(actors).collect();
            let start = Barrier::new(writers.len());
            let found = thread::scope(|scope| {
                let sink = File::from(sink);
                for (writer, actor) in writers.clone() {
                    let (sink, start) = (sink.try_clone().unwrap(), &start);
                    scope.spawn(move || actor.write_records(writer, &sink, start));
                }
                drop(sink);
                crate::files::read_to_end(&reader)
            });
            let wrote: Vec<_> = writers
                .iter()
                .map(|(w, actor)| match actor.wrote() {
                    // A full socket takes a write in parts.
                    Wrote::Records(n) => (*w, Wrote::Stream(n)),
                    wrote => (*w, wrote),
                })
                .collect();
            assert_eq!(compare(&found, &wrote), Ok(()));
        }
    });
}

/// The oracle itself: threads that use write(2) lose nothing.
#[test]
fn three_threads_that_write_lose_nothing() {
    bounded(|| {
        for dir in scratch_dirs() {
            share_a_sink_in(&dir, &[Actor::Write, Actor::Write, Actor::Write]);
        }
    });
}
