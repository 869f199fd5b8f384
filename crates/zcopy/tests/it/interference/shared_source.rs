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
use crate::options::{MaybeOptions as _, Runs};
use crate::refused::{allowed, is_refused, needs};
use crate::skip::report;

/// Bytes of the source. Not a multiple of any block.
const LEN: usize = (2 << 20) + 4711;

/// A reader of the shared source.
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
    /// Transfers with a limit, until the source ends.
    Limited,
    /// A transfer to a file system that becomes full.
    FullDisk,
    /// Transfers to a device that is always full.
    FullDevice,
    /// A loop of read(2) instead of a transfer.
    Read,
}

/// The bytes that a reader got.
type Received = Vec<u8>;

impl Reader {
    /// Waits for the other readers, and reads until the source ends.
    fn read_all(self, source: &File, start: &Barrier) -> Received {
        match self {
            Self::Pipe(strategy) => read_through(source, pipe(), strategy, start),
            Self::UnixStream(strategy) => {
                let ends = unix(SocketType::STREAM);
                read_through(source, ends, strategy, start)
            }
            Self::Tcp(strategy) => read_through(source, tcp(), strategy, start),
            Self::Null => {
                let null = null();
                let mut received = Received::new();
                let transfer = Transfer::new(source, &null);
                let transfer = transfer.inspect(|bytes| received.extend_from_slice(bytes));
                start.wait();
                transfer.run().unwrap();
                received
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
                let received = read.join().unwrap();
                assert!(received == contents(&sink), "both sinks get the same");
                received
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
                let outcome = Transfer::new(source, &sink).run();
                let mut received = contents(&sink);
                if let Err(error) = outcome {
                    assert_eq!(error.bytes(), received.len() as u64);
                    received.extend(error.into_undelivered());
                }
                received
            }
            Self::FullDevice => {
                let full = full();
                let mut received = Received::new();
                start.wait();
                for _ in 0..20 {
                    let transfer = Transfer::new(source, &full);
                    if let Err(error) = transfer.run() {
                        received.extend(error.into_undelivered());
                    }
                }
                received
            }
            Self::Read => {
                let mut received = Received::new();
                start.wait();
                crate::files::read_each(source, |bytes| received.extend_from_slice(bytes));
                received
            }
        }
    }
}

fn run(transfer: impl Runs, strategy: Option<Strategy>) -> u64 {
    let transfer = transfer.maybe_strategy(strategy);
    transfer.run().unwrap().bytes()
}

fn read_through(
    source: &File,
    (reader, writer): (OwnedFd, OwnedFd),
    strategy: Option<Strategy>,
    start: &Barrier,
) -> Received {
    let read = thread::spawn(move || read_to_end(&reader));
    start.wait();
    let bytes = run(Transfer::new(source, &writer), strategy);
    drop(writer);
    let received = read.join().unwrap();
    assert_eq!(received.len() as u64, bytes, "the count of the report");
    received
}

/// Lets all readers read one open file at the same time, several times on each file system.
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
    let received: Vec<Received> = thread::scope(|scope| {
        let read_all = |reader: &Reader| {
            let (reader, start, source) = (*reader, &start, source.try_clone().unwrap());
            scope.spawn(move || reader.read_all(&source, start))
        };
        let threads: Vec<_> = readers.iter().map(read_all).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    for received in &received {
        covered.add(received);
    }
    // The rest holds bytes that a failing transfer has given back after the others had found the
    // end.
    covered.add(&read_to_end(&source));
    if let Err(damage) = covered.verdict() {
        let lens: Vec<_> = received.iter().map(Vec::len).collect();
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
    two_pipes_by_sendfile_beside_read_get_each_byte_once:
        [Pipe(Some(Strategy::Sendfile)), Pipe(Some(Strategy::Sendfile)), Read];
    two_sockets_by_sendfile_beside_read_get_each_byte_once:
        [Tcp(Some(Strategy::Sendfile)), UnixStream(Some(Strategy::Sendfile)), Read];
    two_pipes_by_splice_beside_read_get_each_byte_once:
        [Pipe(Some(Strategy::Splice)), Pipe(Some(Strategy::Splice)), Read];
    two_sockets_by_a_private_pipe_beside_read_get_each_byte_once:
        [Tcp(Some(Strategy::SplicePipe)), UnixStream(Some(Strategy::SplicePipe)), Read];
    two_files_by_a_private_pipe_beside_read_get_each_byte_once:
        [File(Some(Strategy::SplicePipe)), File(Some(Strategy::SplicePipe)), Read];
    a_pipe_and_a_file_by_read_and_write_get_each_byte_once:
        [Pipe(Some(Strategy::Buffered)), File(Some(Strategy::Buffered)), Read];
    different_sinks_get_each_byte_once:
        [Pipe(None), UnixStream(None), Tcp(None), Null, File(None), Read];
    fan_outs_get_each_byte_once: [FanOut, FanOut, Read];
    a_fan_out_beside_a_socket_gets_each_byte_once: [FanOut, Tcp(None)];
    limited_transfers_get_each_byte_once: [Limited, Limited, Read];
    limited_transfers_beside_a_socket_get_each_byte_once: [Limited, Tcp(None)];
}

/// A transfer that fails either hands back the bytes that it has taken or leaves them to the
/// others.
#[test]
fn bytes_refused_by_a_full_disk_are_neither_lost_nor_doubled() {
    if mount_tmpfs(1).is_none() {
        return;
    }
    share_a_source(&[Reader::FullDisk, Reader::Pipe(None), Reader::Read]);
}

#[test]
fn bytes_refused_by_a_full_device_are_neither_lost_nor_doubled() {
    share_a_source(&[Reader::FullDevice, Reader::Pipe(None)]);
    share_a_source(&[Reader::FullDevice, Reader::Read]);
}

/// A transfer waits for its full sink while another thread reads from the shared source. Then the
/// reader of the sink closes.
fn fail_after_another_has_read(strategy: Option<Strategy>, ends: fn() -> (OwnedFd, OwnedFd)) {
    fail_after_another_has_taken(strategy, ends, OFlags::empty(), |source| {
        let mut received = vec![0; 10_000];
        // Others do not read the bytes that the transfer has reserved, just as they do not read the
        // bytes in the buffer of a loop.
        let n = rustix::io::read(source, &mut received).unwrap();
        received.truncate(n);
        received
    });
}

/// The same, with `take` as the action of the other thread.
fn fail_after_another_has_taken(
    strategy: Option<Strategy>,
    ends: fn() -> (OwnedFd, OwnedFd),
    mode: OFlags,
    take: fn(&File) -> Vec<u8>,
) {
    bounded(move || {
        for dir in scratch_dirs() {
            let source = file_in(&dir, &pattern(LEN));
            let set = rustix::fs::fcntl_setfl(&source, mode);
            if set == Err(rustix::io::Errno::INVAL) && mode.contains(OFlags::DIRECT) {
                report(&format!("files in {} do not take O_DIRECT", dir.display()));
                continue;
            }
            set.unwrap();
            let (reader, writer) = ends();
            let shared = source.try_clone().unwrap();
            let (send_thread, thread_sent) = std::sync::mpsc::channel();
            let copying = thread::spawn(move || {
                send_thread.send(Thread::current()).unwrap();
                let transfer = Transfer::new(&shared, &writer).grow_pipes(false);
                let transfer = transfer.maybe_strategy(strategy);
                transfer.run().unwrap_err()
            });
            thread_sent.recv().unwrap().until_asleep();
            let received = take(&source);
            drop(reader);
            let error = copying.join().unwrap();
            let mut covered = Covered::new(LEN);
            // No other thread read before the sink was full.
            covered.add(&pattern(LEN)[..error.bytes() as usize]);
            covered.add(&received);
            covered.add(error.undelivered());
            rustix::fs::fcntl_setfl(&source, OFlags::empty()).unwrap();
            covered.add(&read_to_end(&source));
            let case = format!("{strategy:?} in {}: {error:#}", dir.display());
            assert_eq!(covered.verdict(), Ok(()), "{case}");
        }
    });
}

/// Reserved bytes that cannot be given back are read at an unaligned offset. A file with `O_DIRECT`
/// refuses such a read.
#[test]
fn bytes_reserved_of_a_direct_source_are_not_lost_with_its_sink() {
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
fn bytes_refused_by_a_closed_pipe_are_neither_lost_nor_doubled() {
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
fn bytes_refused_by_a_closed_socket_are_neither_lost_nor_doubled() {
    for strategy in allowed([
        None,
        Some(Strategy::Buffered),
        Some(Strategy::SplicePipe),
        Some(Strategy::Sendfile),
    ]) {
        fail_after_another_has_read(strategy, || unix(SocketType::STREAM));
    }
}

/// A transfer that is stopped gives back the bytes that it has taken, wherever others have moved
/// the cursor.
#[test]
fn bytes_that_a_stopped_transfer_has_taken_are_neither_lost_nor_doubled() {
    use std::ops::ControlFlow;
    bounded(|| {
        for dir in scratch_dirs() {
            for strategy in allowed([None, Some(Strategy::Buffered), Some(Strategy::SplicePipe)]) {
                let source = file_in(&dir, &pattern(LEN));
                let (reader, writer) = pipe();
                let mut received = vec![0; 10_000];
                let transfer = Transfer::new(&source, &writer).grow_pipes(false);
                let transfer = transfer.maybe_strategy(strategy);
                let tick = std::time::Duration::from_millis(1);
                let transfer = transfer.tick(tick).observe(|progress| {
                    if progress.blocked() != Some(zcopy::Side::Sink) {
                        return ControlFlow::Continue(());
                    }
                    let n = rustix::io::read(&source, &mut received).unwrap();
                    // If splice is refused, sendfile serves and reserves the whole source.
                    let is_by_sendfile = progress.strategy() == Strategy::Sendfile;
                    let is_reserved = n == 0 && is_by_sendfile && is_refused(Strategy::Splice);
                    assert!(is_reserved || n == received.len(), "{strategy:?}: {n}");
                    received.truncate(n);
                    ControlFlow::Break(())
                });
                let report = transfer.run().unwrap();
                drop(writer);
                let mut covered = Covered::new(LEN);
                let sent = read_to_end(&reader);
                assert_eq!(sent.len() as u64, report.bytes());
                covered.add(&sent);
                covered.add(&received);
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

/// Transfers and a loop of read(2) read from one pipe or socket: each byte goes to one of them.
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
                    scope.spawn(move || reader.read_all(&source, start))
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
