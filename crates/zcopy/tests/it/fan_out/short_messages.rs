//! Short messages share the slots of a pipe among the sinks.

use std::time::Duration;

use rustix::io::read;
use rustix::net::SocketType;
use zcopy::{Ended, Strategy, Transfer};

use crate::concurrency::bounded;
use crate::endpoints::{pipe, tcp, unix};
use crate::files::{assert_same, read_to_end, write_all};
use crate::options::MaybeOptions as _;
use crate::refused::is_allowed;
use crate::strategies::moved_by;

/// Each message arrives everywhere before the next one is sent.
#[test]
fn an_unread_pipe_takes_short_messages_into_half_of_its_capacity() {
    const MESSAGE: [u8; 3] = *b"12\n";
    // A pipe has 64 KiB.
    const N_MESSAGES: usize = (32 << 10) / MESSAGE.len();
    for tick in [None, Some(Duration::from_millis(100))] {
        for source in [pipe as fn() -> _, tcp] {
            bounded(move || {
                let ((source, writer), (unread, sink), (read_at_once, log)) =
                    (source(), pipe(), pipe());
                let transfer = std::thread::spawn(move || {
                    let transfer = Transfer::new(&source, &sink).also_to(&log);
                    transfer.maybe_tick(tick).run().unwrap()
                });
                for _ in 0..N_MESSAGES {
                    assert!(write_all(&writer, &MESSAGE));
                    let mut arrived = [0; MESSAGE.len()];
                    assert_eq!(read(&read_at_once, &mut arrived), Ok(MESSAGE.len()));
                    assert_eq!(arrived, MESSAGE);
                }
                drop(writer);
                let report = transfer.join().unwrap();
                let expected = MESSAGE.repeat(N_MESSAGES);
                assert_eq!(report.ended(), Ended::Eof);
                assert_eq!(report.bytes(), expected.len() as u64);
                assert_same(&read_to_end(&unread), &expected, &format!("{tick:?}"));
            });
        }
    }
}

/// One splice takes all messages that wait in a socket, and each fills a slot.
#[test]
fn an_unread_pipe_takes_all_messages_that_waited() {
    const MESSAGE: [u8; 30] = [b'm'; 30];
    const N_MESSAGES: usize = 200;
    // In the first round the second pipe is not read, in the second round the first pipe.
    for is_first_unread in [false, true] {
        bounded(move || {
            let (source, writer) = unix(SocketType::STREAM);
            for _ in 0..N_MESSAGES {
                assert!(write_all(&writer, &MESSAGE));
            }
            drop(writer);
            let (pipes, logs) = ([pipe(), pipe()], pipe());
            let [(first, first_sink), (second, second_sink)] = pipes;
            let transfer = std::thread::spawn(move || {
                let sinks = Transfer::new(&source, &first_sink).also_to(&second_sink);
                sinks.also_to(&logs.1).run().unwrap()
            });
            let (read, unread) = if is_first_unread {
                (second, first)
            } else {
                (first, second)
            };
            let expected = MESSAGE.repeat(N_MESSAGES);
            assert_same(&read_to_end(&read), &expected, "the pipe that is read");
            assert_same(&read_to_end(&logs.0), &expected, "the log");
            assert_eq!(transfer.join().unwrap().bytes(), expected.len() as u64);
            assert_same(&read_to_end(&unread), &expected, "the other pipe");
        });
    }
}

/// One message tells the next round to read, and many bytes tell the next one to splice again.
#[test]
fn many_bytes_are_duplicated_again_behind_short_messages() {
    if !is_allowed(Strategy::Tee) {
        return;
    }
    bounded(|| {
        const BULK: usize = 32 << 10;
        let (source, writer) = pipe();
        let ((reader, sink), (other_reader, other_sink)) = (pipe(), pipe());
        let transfer = std::thread::spawn(move || {
            let transfer = Transfer::new(&source, &sink).also_to(&other_sink);
            transfer.run().unwrap()
        });
        for len in [5, BULK, BULK, BULK, BULK, 5, 5] {
            assert!(write_all(&writer, &vec![b'x'; len]));
            for reader in [&reader, &other_reader] {
                let mut left = vec![0; len];
                while !left.is_empty() {
                    let n = read(reader, &mut left).unwrap();
                    assert!(left[..n].iter().all(|byte| *byte == b'x'));
                    left.truncate(left.len() - n);
                }
            }
        }
        drop(writer);
        let report = transfer.join().unwrap();
        assert_eq!(report.bytes(), (3 * 5 + 4 * BULK) as u64);
        let (duplicated, written) = (
            moved_by(&report, Strategy::Tee),
            moved_by(&report, Strategy::Buffered),
        );
        assert!(duplicated >= 3 * BULK as u64, "{report:#}");
        assert!(written >= 5, "{report:#}");
        assert_eq!(duplicated + written, report.bytes(), "{report:#}");
        for sink in report.sinks() {
            assert_ne!(sink.strategy(), Some(Strategy::Buffered), "{report:#}");
        }
    });
}
