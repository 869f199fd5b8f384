//! One source to several sinks: every sink gets every byte once and in order, and the report says
//! so.

mod accounting;
mod allocations;
mod direct_and_polled_files;
mod every_source;
mod latency;
mod options;
mod pipe_capacity;
mod readers;
mod resume;
mod sessions;
mod short_messages;
mod sink_errors;
mod strangers;

use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;

use rustix::io::ioctl_fionbio;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::pipe::fcntl_setpipe_size;
use zcopy::{FanOut, Strategy};

use crate::endpoints::{Sink, SinkKind, full, null, pipe};
use crate::files::appending;
use crate::mounts::Fs;
use crate::refused::is_refused;

/// A kind of sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Tmpfs,
    Append,
    Pipe,
    /// A pipe that is read a little at a time.
    SlowPipe,
    /// A pipe of one slot.
    OneSlot,
    /// A pipe whose writer does not block.
    NonBlocking,
    Tcp,
    /// A socket with the smallest possible buffer.
    TinySocket,
    Terminal,
    Null,
    /// `/dev/null`, opened to append, so that it must be written to.
    AppendedNull,
    /// `/dev/full`, which always fails.
    Full,
}

/// A sink with the reader of its bytes.
enum TestSink {
    Read(Sink),
    Slow(OwnedFd, JoinHandle<Vec<u8>>),
    /// A device that keeps nothing.
    Device(OwnedFd),
}

impl Kind {
    fn is_pipe(self) -> bool {
        use Kind::{NonBlocking, OneSlot, Pipe, SlowPipe};
        matches!(self, Pipe | SlowPipe | OneSlot | NonBlocking)
    }

    fn must_be_written_to(self) -> bool {
        use Kind::{Append, AppendedNull, Full, Terminal};
        matches!(self, Append | AppendedNull | Terminal | Full)
    }
}

impl TestSink {
    /// An empty sink; `None`, reported, if this machine has no such sink.
    fn new(kind: Kind) -> Option<Self> {
        let plain = |kind| Sink::new(kind);
        let sink = match kind {
            Kind::File => plain(SinkKind::Regular(Fs::Ext4))?,
            Kind::Tmpfs => plain(SinkKind::Regular(Fs::Tmpfs))?,
            Kind::Append => plain(SinkKind::Append)?,
            Kind::Pipe => plain(SinkKind::Pipe)?,
            Kind::Tcp => plain(SinkKind::Tcp)?,
            Kind::Terminal => plain(SinkKind::Terminal)?,
            Kind::Null => plain(SinkKind::Null)?,
            Kind::OneSlot => {
                let pipe = plain(SinkKind::Pipe)?;
                fcntl_setpipe_size(&pipe.fd, 4096).unwrap();
                pipe
            }
            Kind::NonBlocking => {
                let fifo = plain(SinkKind::Fifo)?;
                ioctl_fionbio(&fifo.fd, true).unwrap();
                fifo
            }
            Kind::TinySocket => {
                let socket = plain(SinkKind::UnixStream)?;
                set_socket_send_buffer_size(&socket.fd, 1).unwrap();
                socket
            }
            Kind::SlowPipe => {
                let (reader, writer) = pipe();
                let reader = std::thread::spawn(move || read_in_pieces(&reader));
                return Some(Self::Slow(writer, reader));
            }
            Kind::Full => return Some(Self::Device(full())),
            Kind::AppendedNull => {
                return Some(Self::Device(appending(&null())));
            }
        };
        Some(Self::Read(sink))
    }

    fn fd(&self) -> &OwnedFd {
        match self {
            Self::Read(sink) => &sink.fd,
            Self::Slow(fd, _) | Self::Device(fd) => fd,
        }
    }

    /// The bytes that arrived, of which `n` are expected; `None` for devices that keep nothing.
    fn into_bytes(self, n: u64) -> Option<Vec<u8>> {
        match self {
            Self::Read(sink) => sink.into_bytes(n),
            Self::Slow(fd, reader) => {
                drop(fd);
                Some(reader.join().unwrap())
            }
            Self::Device(_) => None,
        }
    }
}

fn read_in_pieces(reader: &OwnedFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut piece = [0; 3000];
    loop {
        match rustix::io::read(reader, &mut piece).unwrap() {
            0 => return bytes,
            n => bytes.extend_from_slice(&piece[..n]),
        }
        std::thread::yield_now();
    }
}

/// A fan-out from `source` to all of `sinks`.
fn to_all<'a>(source: &'a OwnedFd, sinks: &[&'a OwnedFd]) -> FanOut<'a> {
    let (first, others) = sinks.split_first().unwrap();
    let fan_out = FanOut::new(source.as_fd(), *first);
    others.iter().copied().fold(fan_out, FanOut::also_to)
}

/// The same strategies, or writes to every sink if a filter refuses the calls that share bytes.
fn unless_refused<const N: usize>(strategies: [Strategy; N]) -> [Strategy; N] {
    if is_refused(Strategy::Tee) {
        [Strategy::Buffered; N]
    } else {
        strategies
    }
}

/// The strategy of each sink.
fn strategies_of(sinks: &[zcopy::SinkReport]) -> Vec<Strategy> {
    let planned = sinks.iter().map(|sink| sink.strategy().unwrap());
    planned.collect()
}
