//! Other threads set and clear `O_NONBLOCK` on the source and the sink of a transfer: the transfer
//! neither fails nor loses a byte.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::SocketType;
use zcopy::{FilterTransfer, Repeat, Strategy, Transfer};

use crate::concurrency::bounded;
use crate::endpoints::{fifo, null, pipe, tcp, unix};
use crate::files::{assert_same, pattern, read_each, write_all};
use crate::options::run_also_to;
use crate::refused::is_allowed;

const LEN: usize = (1 << 20) + 333;

/// A pipe or a socket.
#[derive(Clone, Copy, Debug)]
enum Channel {
    Pipe,
    Fifo,
    UnixStream,
    Tcp,
}

impl Channel {
    const ALL: [Self; 4] = [Self::Pipe, Self::Fifo, Self::UnixStream, Self::Tcp];

    fn open(self) -> (OwnedFd, OwnedFd) {
        match self {
            Self::Pipe => pipe(),
            Self::Fifo => fifo(),
            Self::UnixStream => unix(SocketType::STREAM),
            Self::Tcp => tcp(),
        }
    }
}

/// Every kind of channel as source and as sink.
const PAIRS: [(Channel, Channel); 7] = [
    (Channel::Pipe, Channel::UnixStream),
    (Channel::Fifo, Channel::Tcp),
    (Channel::UnixStream, Channel::UnixStream),
    (Channel::UnixStream, Channel::Pipe),
    (Channel::Tcp, Channel::Fifo),
    (Channel::Tcp, Channel::Tcp),
    (Channel::Pipe, Channel::Pipe),
];

/// The kind of transfer.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    Ticking,
    By(Strategy),
    FanOut,
    FilterTransfer,
}

impl Kind {
    fn is_allowed(self) -> bool {
        match self {
            Self::By(strategy) => is_allowed(strategy),
            _ => true,
        }
    }

    fn run(self, source: &OwnedFd, sink: &OwnedFd) -> zcopy::Result<u64> {
        let null = null();
        let transfer = Transfer::new(source, sink);
        let transfer = match self {
            Self::Plain | Self::FanOut => transfer,
            Self::Ticking => transfer.tick(Duration::from_millis(1)),
            Self::By(strategy) => transfer.strategy(strategy),
            Self::FilterTransfer => {
                let mut filter = FilterTransfer::new(sink, super::identity);
                let bytes = filter.run(source)?.bytes();
                return Ok(bytes + filter.finish()?.bytes());
            }
        };
        let others = matches!(self, Self::FanOut).then_some(&null);
        run_also_to(transfer, others).map(|report| report.bytes())
    }
}

/// Sets and clears the flag of these descriptors until `is_over`.
fn toggle(fds: &[&OwnedFd], is_over: &AtomicBool) {
    let mut nonblocking = false;
    while !is_over.load(Ordering::Relaxed) {
        nonblocking = !nonblocking;
        for fd in fds {
            rustix::io::ioctl_fionbio(fd, nonblocking).unwrap();
        }
    }
}

/// Feeds a source in pieces, reads a sink slowly, and toggles the mode of both.
fn toggle_both_ends(kind: Kind, from: Channel, to: Channel) {
    let ((source, feed), (reader, sink)) = (from.open(), to.open());
    let bytes = pattern(LEN);
    let is_over = AtomicBool::new(false);
    let case = format!("{kind:?} from {from:?} to {to:?}");
    thread::scope(|scope| {
        let ends = [source.try_clone().unwrap(), sink.try_clone().unwrap()];
        let (is_over, bytes) = (&is_over, &bytes);
        let watched = source.try_clone().unwrap();
        let toggling = scope.spawn(move || toggle(&[&ends[0], &ends[1]], is_over));
        scope.spawn(move || {
            let (in_bulk, messages) = bytes.split_at(LEN - 800 * 250);
            if !write_all(&feed, in_bulk) {
                return;
            }
            // Send each message when the source is empty.
            for message in messages.chunks(250) {
                while !is_over.load(Ordering::Relaxed)
                    && rustix::io::ioctl_fionread(&watched).unwrap() > 0
                {
                    thread::yield_now();
                }
                if !write_all(&feed, message) {
                    break;
                }
            }
        });
        let reading = scope.spawn(move || {
            let mut arrived = Vec::new();
            read_each(&reader, |read| {
                arrived.extend_from_slice(read);
                // Let the sink become full sometimes.
                if arrived.len() % 5 == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
            });
            arrived
        });
        let outcome = kind.run(&source, &sink);
        is_over.store(true, Ordering::Relaxed);
        toggling.join().unwrap();
        drop(sink);
        if outcome.is_err() {
            // Lets the thread that feeds the source finish.
            rustix::io::ioctl_fionbio(&source, false).unwrap();
            read_each(&source, |_| {});
        }
        let arrived = reading.join().unwrap();
        match outcome {
            Ok(n) => assert_eq!(n, LEN as u64, "{case}"),
            Err(error) => panic!("{case}: {error:#}"),
        }
        assert_same(&arrived, bytes, &case);
    });
}

fn run_while_toggled(kinds: &'static [Kind]) {
    bounded(move || {
        for kind in kinds.iter().filter(|kind| kind.is_allowed()) {
            for (from, to) in PAIRS {
                toggle_both_ends(*kind, from, to);
            }
        }
    });
}

#[test]
fn a_mode_that_others_change_does_not_end_a_transfer() {
    run_while_toggled(&[Kind::Plain]);
}

#[test]
fn a_mode_that_others_change_does_not_end_a_transfer_with_a_tick() {
    run_while_toggled(&[Kind::Ticking]);
}

#[test]
fn a_mode_that_others_change_does_not_end_a_transfer_by_any_strategy() {
    run_while_toggled(&[Kind::By(Strategy::Buffered), Kind::By(Strategy::SplicePipe)]);
}

#[test]
fn a_mode_that_others_change_does_not_end_a_transfer_to_several_sinks() {
    run_while_toggled(&[Kind::FanOut]);
}

#[test]
fn a_mode_that_others_change_does_not_end_a_filter() {
    run_while_toggled(&[Kind::FilterTransfer]);
}

#[test]
fn a_mode_that_others_change_does_not_end_a_repetition() {
    bounded(|| {
        for to in Channel::ALL {
            let (reader, sink) = to.open();
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                let toggled = sink.try_clone().unwrap();
                let is_over = &is_over;
                let toggling = scope.spawn(move || toggle(&[&toggled], is_over));
                let reading = scope.spawn(move || {
                    let mut n = 0;
                    read_each(&reader, |read| n += read.len());
                    n
                });
                let outcome = Repeat::new("abc\n").limit(16 << 20).run(&sink);
                is_over.store(true, Ordering::Relaxed);
                toggling.join().unwrap();
                drop(sink);
                let n_read = reading.join().unwrap();
                let report = outcome.unwrap_or_else(|error| panic!("to {to:?}: {error:#}"));
                assert_eq!((report.bytes(), n_read), (16 << 20, 16 << 20), "to {to:?}");
            });
        }
    });
}
