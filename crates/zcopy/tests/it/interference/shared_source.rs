//! Transfers out of one open file that others read through the same cursor.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use rustix::fs::OFlags;
use rustix::net::SocketType;
use zcopy::{Strategy, Transfer};

use super::byte_coverage::{Covered, pattern};
use crate::concurrency::{Thread, bounded, scratch_dirs};
use crate::endpoints::{full, null, pipe, tcp, unix};
use crate::files::{contents, cursor, file_in, read_to_end, set_cursor};
use crate::mounts::mount_tmpfs;
use crate::options::MaybeOptions as _;
use crate::refused::{allowed, is_refused, needs};

/// Bytes of the source. Not a multiple of any block.
const LEN: usize = (2 << 20) + 4711;

/// One that reads the shared source, and how.
#[derive(Clone, Copy, Debug)]
enum Reader {
    Pipe(Option<Strategy>),
    UnixStream(Option<Strategy>),
    Tcp(Option<Strategy>),
    /// A transfer to `/dev/null` whose bytes are inspected.
    Null,
    /// A transfer to a file of its own.
    File(Option<Strategy>),
    /// A transfer to a pipe and a file.
    FanOut,
    /// Transfers of some blocks, over and over.
    Limited,
    /// A transfer to a file system that becomes full.
    FullDisk,
    /// Transfers to a device that is always full.
    FullDevice,
    /// Not a transfer: read(2).
    Read,
}

/// The bytes that a reader got.
type Got = Vec<u8>;

impl Reader {
    /// Waits for the others, and reads until the source ends.
    fn act(self, source: &File, start: &Barrier) -> Got {
        match self {
            Self::Pipe(strategy) => through(source, pipe(), strategy, start),
            Self::UnixStream(strategy) => {
                let ends = unix(SocketType::STREAM);
                through(source, ends, strategy, start)
            }
            Self::Tcp(strategy) => through(source, tcp(), strategy, start),
            Self::Null => {
                let null = null();
                let mut got = Got::new();
                let transfer = Transfer::new(source, &null);
                let transfer = transfer.inspect(|bytes| got.extend_from_slice(bytes));
                start.wait();
                transfer.run().unwrap();
                got
            }
            Self::File(strategy) => {
                let sink = file_in(&std::env::temp_dir(), b"");
                start.wait();
                run(Transfer::new(source, &sink), strategy);
                contents(&sink)
            }
            Self::FanOut => {
                let sink = file_in(&std::env::temp_dir(), b"");
                let (reader, writer) = pipe();
                let read = thread::spawn(move || read_to_end(&reader));
                start.wait();
                run(Transfer::new(source, &writer).also_to(&sink), None);
                drop(writer);
                let got = read.join().unwrap();
                assert!(got == contents(&sink), "both sinks get the same");
                got
            }
            Self::Limited => {
                let sink = file_in(&std::env::temp_dir(), b"");
                start.wait();
                while run(Transfer::new(source, &sink).limit(100_000), None) > 0 {}
                contents(&sink)
            }
            Self::FullDisk => {
                let disk = mount_tmpfs(1).unwrap();
                let sink = file_in(&disk.dir(), b"");
                start.wait();
                let done = Transfer::new(source, &sink).run();
                let mut got = contents(&sink);
                if let Err(error) = done {
                    assert_eq!(error.bytes(), got.len() as u64);
                    got.extend(error.into_undelivered());
                }
                got
            }
            Self::FullDevice => {
                let full = full();
                let mut got = Got::new();
                start.wait();
                for _ in 0..20 {
                    let transfer = Transfer::new(source, &full);
                    if let Err(error) = transfer.run() {
                        got.extend(error.into_undelivered());
                    }
                }
                got
            }
            Self::Read => {
                let mut got = Got::new();
                start.wait();
                crate::files::read_each(source, |bytes| got.extend_from_slice(bytes));
                got
            }
        }
    }
}

fn run(transfer: Transfer<'_>, strategy: Option<Strategy>) -> u64 {
    let transfer = transfer.maybe_strategy(strategy);
    transfer.run().unwrap().bytes()
}

fn through(
    source: &File,
    (reader, writer): (OwnedFd, OwnedFd),
    strategy: Option<Strategy>,
    start: &Barrier,
) -> Got {
    let read = thread::spawn(move || read_to_end(&reader));
    start.wait();
    let bytes = run(Transfer::new(source, &writer), strategy);
    drop(writer);
    let got = read.join().unwrap();
    assert_eq!(got.len() as u64, bytes, "what it reports");
    got
}

/// Lets all of them read one open file at once, several times on each file system.
fn share_a_source(readers: &'static [Reader]) {
    let strategies = readers.iter().filter_map(|reader| match reader {
        Reader::Pipe(strategy)
        | Reader::UnixStream(strategy)
        | Reader::Tcp(strategy)
        | Reader::File(strategy) => *strategy,
        _ => None,
    });
    if !needs(&strategies.collect::<Vec<_>>()) {
        return;
    }
    bounded(move || {
        for dir in scratch_dirs() {
            for _ in 0..2 {
                share_a_source_in(&dir, readers);
            }
        }
    });
}

fn share_a_source_in(dir: &Path, readers: &[Reader]) {
    let source = file_in(dir, &pattern(LEN));
    let start = Barrier::new(readers.len());
    let mut covered = Covered::new(LEN);
    let got: Vec<Got> = thread::scope(|scope| {
        let act = |reader: &Reader| {
            let (reader, start, source) = (*reader, &start, source.try_clone().unwrap());
            scope.spawn(move || reader.act(&source, start))
        };
        let threads: Vec<_> = readers.iter().map(act).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    for got in &got {
        covered.add(got);
    }
    // What a failing transfer has put back after the others had found the end.
    covered.add(&read_to_end(&source));
    if let Err(damage) = covered.verdict() {
        let lens: Vec<_> = got.iter().map(Vec::len).collect();
        panic!("{readers:?} got {lens:?} in {}: {damage}", dir.display());
    }
    assert_eq!(
        cursor(&source),
        LEN as u64,
        "{readers:?}: the shared cursor"
    );
}

macro_rules! sharing_a_source {
    ($($name:ident: [$($reader:expr),*];)*) => {$(
        #[test]
        fn $name() {
            use Reader::*;
            share_a_source(&[$($reader),*]);
        }
    )*};
}

sharing_a_source! {
    three_pipes_get_each_byte_once: [Pipe(None), Pipe(None), Pipe(None)];
    three_unix_sockets_get_each_byte_once: [UnixStream(None), UnixStream(None), UnixStream(None)];
    three_tcp_connections_get_each_byte_once: [Tcp(None), Tcp(None), Tcp(None)];
    three_inspected_transfers_get_each_byte_once: [Null, Null, Null];
    three_files_get_each_byte_once: [File(None), File(None), File(None)];
    three_pipes_by_sendfile_get_each_byte_once: [Pipe(Some(Strategy::Sendfile)), Pipe(Some(Strategy::Sendfile)), Read];
    three_sockets_by_sendfile_get_each_byte_once: [Tcp(Some(Strategy::Sendfile)), UnixStream(Some(Strategy::Sendfile)), Read];
    three_pipes_by_splice_get_each_byte_once: [Pipe(Some(Strategy::Splice)), Pipe(Some(Strategy::Splice)), Read];
    three_sockets_by_a_private_pipe_get_each_byte_once: [Tcp(Some(Strategy::SplicePipe)), UnixStream(Some(Strategy::SplicePipe)), Read];
    three_files_by_a_private_pipe_get_each_byte_once: [File(Some(Strategy::SplicePipe)), File(Some(Strategy::SplicePipe)), Read];
    read_and_written_each_byte_arrives_once: [Pipe(Some(Strategy::Buffered)), File(Some(Strategy::Buffered)), Read];
    different_sinks_get_each_byte_once: [Pipe(None), UnixStream(None), Tcp(None), Null, File(None), Read];
    fan_outs_get_each_byte_once: [FanOut, FanOut, Read];
    a_fan_out_beside_a_socket_gets_each_byte_once: [FanOut, Tcp(None)];
    limited_transfers_get_each_byte_once: [Limited, Limited, Read];
    limited_transfers_beside_a_socket_get_each_byte_once: [Limited, Tcp(None)];
}

/// A transfer that fails hands back what it has taken, or leaves it to the others: never both, and
/// never neither.
#[test]
fn what_a_full_disk_does_not_take_is_neither_lost_nor_doubled() {
    if mount_tmpfs(1).is_none() {
        return;
    }
    share_a_source(&[Reader::FullDisk, Reader::Pipe(None), Reader::Read]);
}

#[test]
fn what_a_full_device_does_not_take_is_neither_lost_nor_doubled() {
    share_a_source(&[Reader::FullDevice, Reader::Pipe(None)]);
    share_a_source(&[Reader::FullDevice, Reader::Read]);
}

/// A transfer sleeps, because its sink is full, while somebody else reads from the shared source.
/// Then the sink's reader goes.
fn fail_after_another_has_read(strategy: Option<Strategy>, ends: fn() -> (OwnedFd, OwnedFd)) {
    fail_after_another_has_taken(strategy, ends, OFlags::empty(), |source| {
        let mut got = vec![0; 10_000];
        // What the transfer has reserved is not read by others, as what a loop has in its buffer is
        // not.
        let n = rustix::io::read(source, &mut got).unwrap();
        got.truncate(n);
        got
    });
}

/// The same, where `take` is what somebody else does.
fn fail_after_another_has_taken(
    strategy: Option<Strategy>,
    ends: fn() -> (OwnedFd, OwnedFd),
    mode: OFlags,
    take: fn(&File) -> Vec<u8>,
) {
    bounded(move || {
        for dir in scratch_dirs() {
            let source = file_in(&dir, &pattern(LEN));
            rustix::fs::fcntl_setfl(&source, mode).unwrap();
            let (reader, writer) = ends();
            let shared = source.try_clone().unwrap();
            let (tell, told) = std::sync::mpsc::channel();
            let copying = thread::spawn(move || {
                tell.send(Thread::current()).unwrap();
                let transfer = Transfer::new(&shared, &writer).grow_pipes(false);
                let transfer = transfer.maybe_strategy(strategy);
                transfer.run().unwrap_err()
            });
            told.recv().unwrap().until_asleep();
            let got = take(&source);
            drop(reader);
            let error = copying.join().unwrap();
            let mut covered = Covered::new(LEN);
            // It was alone until the sink was full.
            covered.add(&pattern(LEN)[..error.bytes() as usize]);
            covered.add(&got);
            covered.add(error.undelivered());
            rustix::fs::fcntl_setfl(&source, OFlags::empty()).unwrap();
            covered.add(&read_to_end(&source));
            let case = format!("{strategy:?} in {}: {error:#}", dir.display());
            assert_eq!(covered.verdict(), Ok(()), "{case}");
        }
    });
}

/// Reserved bytes that cannot be given back are read at an unaligned offset, which a file with
/// `O_DIRECT` refuses.
#[test]
fn what_a_direct_source_has_reserved_is_not_lost_with_its_sink() {
    for strategy in allowed([None, Some(Strategy::SplicePipe), Some(Strategy::Sendfile)]) {
        fail_after_another_has_taken(strategy, pipe, OFlags::DIRECT, |source| {
            let before = cursor(source) as usize;
            set_cursor(source, before as u64 + 8192);
            let all = pattern(LEN);
            all[before.min(LEN)..(before + 8192).min(LEN)].to_vec()
        });
    }
}

#[test]
fn what_a_pipe_without_reader_does_not_take_is_neither_lost_nor_doubled() {
    for strategy in allowed([
        None,
        Some(Strategy::Buffered),
        Some(Strategy::SplicePipe),
        Some(Strategy::Splice),
        Some(Strategy::Sendfile),
    ]) {
        fail_after_another_has_read(strategy, pipe);
    }
}

#[test]
fn what_a_socket_without_reader_does_not_take_is_neither_lost_nor_doubled() {
    for strategy in allowed([
        None,
        Some(Strategy::Buffered),
        Some(Strategy::SplicePipe),
        Some(Strategy::Sendfile),
    ]) {
        fail_after_another_has_read(strategy, || unix(SocketType::STREAM));
    }
}

/// A transfer that is stopped gives back what it has taken, wherever the others have taken the
/// cursor.
#[test]
fn what_a_stopped_transfer_has_not_delivered_is_neither_lost_nor_doubled() {
    use std::ops::ControlFlow;
    bounded(|| {
        for dir in scratch_dirs() {
            for strategy in allowed([None, Some(Strategy::Buffered), Some(Strategy::SplicePipe)]) {
                let source = file_in(&dir, &pattern(LEN));
                let (reader, writer) = pipe();
                let mut got = vec![0; 10_000];
                let transfer = Transfer::new(&source, &writer).grow_pipes(false);
                let transfer = transfer.maybe_strategy(strategy);
                let tick = std::time::Duration::from_millis(1);
                let transfer = transfer.tick(tick).observe(|progress| {
                    if progress.blocked() != Some(zcopy::Side::Sink) {
                        return ControlFlow::Continue(());
                    }
                    let n = rustix::io::read(&source, &mut got).unwrap();
                    // sendfile serves where splice is refused, and reserves all of it at once.
                    let is_by_sendfile = progress.strategy() == Strategy::Sendfile;
                    let is_reserved = n == 0 && is_by_sendfile && is_refused(Strategy::Splice);
                    assert!(is_reserved || n == got.len(), "{strategy:?}: {n}");
                    got.truncate(n);
                    ControlFlow::Break(())
                });
                let report = transfer.run().unwrap();
                drop(writer);
                let mut covered = Covered::new(LEN);
                let sent = read_to_end(&reader);
                assert_eq!(sent.len() as u64, report.bytes());
                covered.add(&sent);
                covered.add(&got);
                covered.add(&report.into_undelivered());
                covered.add(&read_to_end(&source));
                assert_eq!(
                    covered.verdict(),
                    Ok(()),
                    "{strategy:?} in {}",
                    dir.display()
                );
            }
        }
    });
}

/// Several readers of one pipe or socket, transfers and read(2): each byte goes to one of them.
#[test]
fn several_readers_of_one_pipe_or_socket_get_each_byte_once() {
    bounded(|| {
        for ends in [pipe, tcp, || unix(SocketType::STREAM)] {
            let (source, feed) = ends();
            let source = File::from(source);
            let readers = [
                Reader::Pipe(None),
                Reader::Tcp(None),
                Reader::File(None),
                Reader::Null,
                Reader::Read,
            ];
            let start = Barrier::new(readers.len());
            let mut covered = Covered::new(LEN);
            thread::scope(|scope| {
                let threads = readers.map(|reader| {
                    let (source, start) = (source.try_clone().unwrap(), &start);
                    scope.spawn(move || reader.act(&source, start))
                });
                scope.spawn(move || assert!(crate::files::write_all(&feed, &pattern(LEN))));
                for thread in threads {
                    covered.add(&thread.join().unwrap());
                }
            });
            assert_eq!(covered.verdict(), Ok(()));
        }
    });
}
