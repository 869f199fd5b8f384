//! Promise 5 for terminals: a user can stop their output, and no flag of a call keeps the call from
//! waiting then.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::termios::{Action, tcflow};
use zcopy::{Ended, Side, Strategy, Transfer};

use crate::endpoints::terminal;
use crate::files::{assert_same, file, pattern};
use crate::options::MaybeOptions as _;
use crate::refused::allowed;

const MILLI: Duration = Duration::from_millis(1);
/// More than a terminal holds.
const LEN: usize = 200_000;

/// Reads `n` bytes that were written to a terminal.
fn arrived(fd: BorrowedFd<'_>, mut n: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n > 0 {
        let mut buffer = vec![0; n];
        // The kernel delivers the bytes asynchronously, so that the read has to wait for them.
        let read = rustix::io::read(fd, &mut buffer).unwrap();
        bytes.extend_from_slice(&buffer[..read]);
        n -= read;
    }
    bytes
}

/// Moves a file to a terminal that nobody reads, until the observer is told that the sink is full.
fn move_until_full(sink: &OwnedFd, strategy: Option<Strategy>) -> u64 {
    let source = file(&pattern(LEN));
    let transfer = Transfer::new(&source, sink)
        .tick(MILLI)
        .observe(|progress| match progress.blocked() {
            Some(side) => {
                assert_eq!(side, Side::Sink);
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        })
        .maybe_strategy(strategy);
    let report = transfer.run().unwrap();
    assert_eq!(report.ended(), Ended::Stopped);
    assert_eq!(crate::files::cursor(&source), report.bytes());
    report.bytes()
}

#[test]
fn promise_5_a_terminal_that_nobody_reads_does_not_delay_a_tick() {
    for strategy in allowed([None, Some(Strategy::SplicePipe), Some(Strategy::Sendfile)]) {
        let (master, slave) = terminal();
        let n = move_until_full(&slave, strategy);
        let n = usize::try_from(n).unwrap();
        assert_same(&arrived(master.as_fd(), n), &pattern(n), "to the slave");
        let flags = rustix::fs::fcntl_getfl(&slave).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK), "no flag is changed");
    }
}

/// A master cannot be opened a second time.
#[test]
fn promise_5_the_master_of_a_terminal_does_not_delay_a_tick() {
    let (master, slave) = terminal();
    let n = usize::try_from(move_until_full(&master, None)).unwrap();
    assert_same(&arrived(slave.as_fd(), n), &pattern(n), "to the master");
}

/// The observer sends `^S` when the terminal is full, and `^Q` after five ticks. The transfer may
/// not use the room that the reader makes in between.
#[test]
fn promise_5_a_terminal_that_is_stopped_does_not_delay_a_tick() {
    let (master, slave) = terminal();
    let bytes = pattern(LEN);
    let source = file(&bytes);
    let (start, started) = std::sync::mpsc::channel();
    let (mut stopped_at, mut ticks) = (None, 0);
    let report = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            started.recv().unwrap();
            arrived(master.as_fd(), LEN)
        });
        let report = Transfer::new(&source, &slave)
            .tick(MILLI)
            .observe(|progress| {
                match (stopped_at, progress.blocked()) {
                    (None, Some(side)) => {
                        assert_eq!(side, Side::Sink);
                        tcflow(&slave, Action::OOff).unwrap();
                        stopped_at = Some(progress.bytes());
                        start.send(()).unwrap();
                    }
                    (Some(bytes), Some(_)) if ticks < 5 => {
                        assert_eq!(progress.bytes(), bytes, "it is stopped");
                        ticks += 1;
                        if ticks == 5 {
                            tcflow(&slave, Action::OOn).unwrap();
                        }
                    }
                    _ => {}
                }
                ControlFlow::Continue(())
            })
            .run()
            .unwrap();
        assert_same(&reader.join().unwrap(), &bytes, "stopped and started");
        report
    });
    assert_eq!((report.bytes(), ticks), (LEN as u64, 5));
}
