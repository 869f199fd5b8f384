//! Transfers that wait for an empty source while others write to the same open file through the
//! same cursor.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use zcopy::{Strategy, Transfer};

use super::numbered_records::{RECORD, Writer, Wrote, compare};
use super::shared_sink::{Actor, channel, filter};
use crate::concurrency::{Thread, bounded, scratch_dirs};
use crate::endpoints::null;
use crate::files::{contents, cursor, file_in, write_all};
use crate::refused::{is_allowed, needs};

/// Waits until a cursor has reached this position, or for five seconds.
fn until_cursor(file: &File, position: u64) {
    let start = Instant::now();
    while cursor(file) < position && start.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs one kind of transfer, and returns the number of bytes it moved.
type MakeTransfer = fn(&OwnedFd, &File) -> zcopy::Result<u64>;

/// A transfer waits for its empty source while another thread writes to the shared sink. Then bytes
/// arrive in the source.
fn wait_while_another_writes(kind: Actor, n_before: u32, transfer: MakeTransfer) {
    bounded(move || {
        for dir in scratch_dirs() {
            let (source, feed) = channel(kind);
            let sink = file_in(&dir, b"");
            let shared = sink.try_clone().unwrap();
            let (transferred, written) = (Writer(1), Writer(2));
            let (send_thread, thread_sent) = std::sync::mpsc::channel();
            let copying = thread::spawn(move || {
                send_thread.send(Thread::current()).unwrap();
                let outcome = transfer(&source, &shared);
                (outcome, source)
            });
            let thread = thread_sent.recv().unwrap();
            let first = transferred.records(n_before);
            assert!(write_all(&feed, &first));
            for round in 0..4 {
                thread.until_asleep();
                assert!(write_all(&sink, &written.record(round)));
                thread.until_asleep();
                assert!(write_all(&feed, &transferred.record(n_before + round)));
            }
            thread.until_asleep();
            assert!(write_all(&sink, &written.record(4)));
            if matches!(kind, Actor::Terminal) {
                // A terminal that is hung up may lose unread bytes.
                until_cursor(&sink, u64::from(n_before + 9) * RECORD as u64);
            }
            drop(feed);
            let (outcome, _source) = copying.join().unwrap();
            // A terminal that is hung up fails with `EIO`, and with `EINVAL` if the splice begins
            // afterwards: what takes the terminal's place cannot be spliced.
            let bytes = match outcome {
                Ok(bytes) => bytes,
                Err(error) if matches!(error.raw_os_error(), Some(5 | 22)) => error.bytes(),
                Err(error) => panic!("{error:#}"),
            };
            assert_eq!(bytes, u64::from(n_before + 4) * RECORD as u64);
            let wrote = [
                (transferred, Wrote::Stream(n_before + 4)),
                (written, Wrote::Records(5)),
            ];
            let found = contents(&sink);
            assert_eq!(compare(&found, &wrote), Ok(()), "in {}", dir.display());
            assert_eq!(cursor(&sink), found.len() as u64);
        }
    });
}

fn plain(source: &OwnedFd, sink: &File) -> zcopy::Result<u64> {
    zcopy::copy(source, sink)
}

fn by(source: &OwnedFd, sink: &File, strategy: Strategy) -> zcopy::Result<u64> {
    let transfer = Transfer::new(source, sink).strategy(strategy);
    transfer.run().map(|report| report.bytes())
}

/// The number of records after which the transfer moves bytes in bulk.
const BULK: u32 = 16 << 10;

#[test]
fn bytes_that_a_shell_writes_while_a_pipe_is_empty_are_not_overwritten() {
    wait_while_another_writes(Actor::Pipe(None), 0, plain);
    wait_while_another_writes(Actor::Pipe(None), 3, plain);
    wait_while_another_writes(Actor::Pipe(None), BULK, plain);
}

#[test]
fn bytes_that_a_shell_writes_while_a_socket_is_empty_are_not_overwritten() {
    for actor in [Actor::UnixStream, Actor::Tcp] {
        wait_while_another_writes(actor, 0, plain);
        wait_while_another_writes(actor, BULK, plain);
    }
}

#[test]
fn bytes_that_a_shell_writes_while_nobody_types_are_not_overwritten() {
    wait_while_another_writes(Actor::Terminal, 0, plain);
    if is_allowed(Strategy::SplicePipe) {
        wait_while_another_writes(Actor::Terminal, 3, |source, sink| {
            by(source, sink, Strategy::SplicePipe)
        });
    }
}

#[test]
fn bytes_of_another_writer_while_a_splice_waits_are_not_overwritten() {
    if !needs(&[Strategy::SplicePipe]) {
        return;
    }
    wait_while_another_writes(Actor::Pipe(None), 3, |source, sink| {
        by(source, sink, Strategy::SplicePipe)
    });
}

#[test]
fn bytes_of_another_writer_while_a_fan_out_waits_are_not_overwritten() {
    let first: MakeTransfer = |source, sink| {
        let null = null();
        let transfer = Transfer::new(source, sink).also_to(&null);
        transfer.run().map(|report| report.bytes())
    };
    let last: MakeTransfer = |source, sink| {
        let null = null();
        let transfer = Transfer::new(source, &null).also_to(sink);
        transfer.run().map(|report| report.bytes())
    };
    for transfer in [first, last] {
        for n_before in [0, BULK] {
            wait_while_another_writes(Actor::Pipe(None), n_before, transfer);
        }
    }
}

#[test]
fn bytes_of_another_writer_while_a_filter_waits_are_not_overwritten() {
    wait_while_another_writes(Actor::Pipe(None), 3, filter);
}

/// With a tick a transfer polls instead of sleeping in a call.
#[test]
fn bytes_of_another_writer_while_a_ticking_transfer_waits_are_not_overwritten() {
    wait_while_another_writes(Actor::Pipe(None), BULK, |source, sink| {
        let tick = Duration::from_secs(3600);
        let transfer = Transfer::new(source, sink).tick(tick);
        transfer.run().map(|report| report.bytes())
    });
}
