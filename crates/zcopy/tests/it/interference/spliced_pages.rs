//! Pipes and sockets that hold pages of a file, because somebody has spliced or sent the file
//! there: `stable` copies these bytes.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use rustix::net::SocketType;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, splice};
use zcopy::{Strategy, Transfer};

use crate::concurrency::{bounded, scratch_dirs};
use crate::endpoints::{pipe, tcp, unix};
use crate::files::{assert_same, file_in, read_to_end};
use crate::refused::{is_allowed, needs};

/// Fits into each pipe and socket here at once, also in writes of a page each. On Linux 5.10 a UNIX
/// socket charges two pages for each, and is not ready to be written if a quarter is in use.
const LEN: usize = 32 << 10;

/// A pipe or a socket with room for [`LEN`] bytes.
#[derive(Clone, Copy, Debug)]
enum Channel {
    Pipe,
    UnixStream,
    Tcp,
}

impl Channel {
    const ALL: [Self; 3] = [Self::Pipe, Self::UnixStream, Self::Tcp];

    fn open(self) -> (OwnedFd, OwnedFd) {
        let (reader, writer) = match self {
            Self::Pipe => pipe(),
            Self::UnixStream => unix(SocketType::STREAM),
            Self::Tcp => tcp(),
        };
        if matches!(self, Self::Pipe) {
            fcntl_setpipe_size(&writer, 1 << 20).unwrap();
        } else {
            // Most machines allow less without privileges; the kernel then takes the largest size
            // allowed.
            set_socket_send_buffer_size(&writer, 1 << 20).unwrap();
            set_socket_recv_buffer_size(&reader, 1 << 20).unwrap();
        }
        (reader, writer)
    }

    /// Whether the calls that put pages of a file there are allowed.
    fn can_hold_pages(self) -> bool {
        is_allowed(match self {
            Self::Pipe => Strategy::Splice,
            Self::UnixStream | Self::Tcp => Strategy::Sendfile,
        })
    }

    /// A reader that holds pages of this file, sent by splice or sendfile, and nothing after them.
    fn with_pages_of(self, file: &File) -> OwnedFd {
        let (reader, writer) = self.open();
        let mut at = 0;
        while at < LEN as u64 {
            let rest = LEN - at as usize;
            let n = if matches!(self, Self::Pipe) {
                splice(
                    file,
                    Some(&mut at),
                    &writer,
                    None,
                    rest,
                    SpliceFlags::empty(),
                )
            } else {
                rustix::fs::sendfile(&writer, file, Some(&mut at), rest)
            };
            assert_ne!(n, Ok(0));
        }
        reader
    }
}

/// The kind of transfer.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    Ticking,
    FanOut,
    Limited,
}

/// Runs a stable transfer of this kind.
fn run(
    kind: Kind,
    source: &OwnedFd,
    sink: &OwnedFd,
    other: &OwnedFd,
) -> zcopy::Result<zcopy::Report> {
    let transfer = Transfer::new(source, sink).stable(true);
    match kind {
        Kind::Plain => transfer.run(),
        Kind::Ticking => transfer.tick(Duration::from_secs(3600)).run(),
        Kind::FanOut => transfer.also_to(other).run(),
        Kind::Limited => transfer.limit(LEN as u64).run(),
    }
}

fn overwrite_after_a_stable_transfer(kind: Kind) {
    let allowed = Channel::ALL.map(Channel::can_hold_pages);
    if allowed == [false; 3] && !needs(&[Strategy::Splice]) {
        return;
    }
    bounded(move || {
        for dir in scratch_dirs() {
            for from in Channel::ALL.into_iter().filter(|it| it.can_hold_pages()) {
                for to in Channel::ALL {
                    let old = vec![b'a'; LEN];
                    let file = file_in(&dir, &old);
                    let source = from.with_pages_of(&file);
                    let (reader, sink) = to.open();
                    let (other_reader, other) = Channel::Pipe.open();
                    let case = format!("{kind:?} from {from:?} to {to:?} in {}", dir.display());
                    let report = run(kind, &source, &sink, &other).unwrap();
                    assert_eq!(report.bytes(), LEN as u64, "{case}");
                    file.write_all_at(&vec![b'b'; LEN], 0).unwrap();
                    drop((sink, other));
                    assert_same(&read_to_end(&reader), &old, &case);
                    if matches!(kind, Kind::FanOut) {
                        assert_same(&read_to_end(&other_reader), &old, &case);
                    }
                    assert!(!report.shared_pages(), "{case}");
                }
            }
        }
    });
}

#[test]
fn a_stable_transfer_copies_pages_that_a_pipe_or_socket_carries() {
    overwrite_after_a_stable_transfer(Kind::Plain);
}

#[test]
fn a_stable_transfer_with_a_tick_copies_pages_that_a_pipe_or_socket_carries() {
    overwrite_after_a_stable_transfer(Kind::Ticking);
}

#[test]
fn a_stable_transfer_with_a_limit_copies_pages_that_a_pipe_or_socket_carries() {
    overwrite_after_a_stable_transfer(Kind::Limited);
}

#[test]
fn a_stable_transfer_to_several_sinks_copies_pages_that_a_pipe_or_socket_carries() {
    overwrite_after_a_stable_transfer(Kind::FanOut);
}

/// The writer continues while the transfer runs, so that the transfer moves bytes in bulk.
#[test]
fn a_long_stable_transfer_copies_pages_that_a_pipe_or_socket_carries() {
    const LONG: usize = 8 << 20;
    bounded(|| {
        for from in Channel::ALL {
            let old = vec![b'a'; LONG];
            let file = file_in(&std::env::temp_dir(), &old);
            let (source, writer) = from.open();
            let (reader, sink) = Channel::Pipe.open();
            thread::scope(|scope| {
                let feeding = scope.spawn(|| {
                    let writer = writer;
                    let sent = zcopy::copy(&file, &writer).unwrap();
                    assert_eq!(sent, LONG as u64);
                });
                // All but the last 512 KiB are read at once; the rest stays in the pipe until the
                // file has been overwritten.
                let head = scope.spawn(|| {
                    let mut bytes = vec![0; LONG - (512 << 10)];
                    let mut n = 0;
                    while n < bytes.len() {
                        n += rustix::io::read(&reader, &mut bytes[n..]).unwrap();
                    }
                    bytes
                });
                let report = Transfer::new(&source, &sink).stable(true).run().unwrap();
                assert_eq!(report.bytes(), LONG as u64);
                feeding.join().unwrap();
                let head = head.join().unwrap();
                file.write_all_at(&vec![b'b'; LONG], 0).unwrap();
                drop(sink);
                let tail = read_to_end(&reader);
                assert_same(&[head, tail].concat(), &old, &format!("from {from:?}"));
            });
        }
    });
}

/// A pipe or socket may hold pages of a file: the plan says so before any byte moves.
#[test]
fn a_plan_from_a_pipe_or_socket_says_that_pages_may_be_shared() {
    for from in Channel::ALL {
        for to in Channel::ALL {
            let ((source, _feed), (_reader, sink)) = (from.open(), to.open());
            for strategy in [None, Some(Strategy::SplicePipe)] {
                let transfer = || match strategy {
                    Some(strategy) => Transfer::new(&source, &sink).strategy(strategy),
                    None => Transfer::new(&source, &sink),
                };
                let case = format!("from {from:?} to {to:?} by {strategy:?}");
                assert!(transfer().plan().unwrap().shares_pages(), "{case}");
                // A strategy that shares pages cannot be stable: the plan refuses it, or says that
                // it does not share pages.
                if let Ok(plan) = transfer().stable(true).plan() {
                    assert!(!plan.shares_pages(), "{case}, stable");
                }
            }
        }
    }
}

/// The report says so afterwards.
#[test]
fn a_report_from_a_pipe_or_socket_says_that_pages_may_be_shared() {
    if !needs(&[Strategy::SplicePipe]) {
        return;
    }
    bounded(|| {
        let file = file_in(&std::env::temp_dir(), &vec![b'a'; LEN]);
        for from in Channel::ALL.into_iter().filter(|it| it.can_hold_pages()) {
            let source = from.with_pages_of(&file);
            let (_reader, sink) = Channel::Pipe.open();
            let transfer = Transfer::new(&source, &sink).strategy(Strategy::SplicePipe);
            assert!(transfer.run().unwrap().shared_pages(), "from {from:?}");
        }
    });
}
