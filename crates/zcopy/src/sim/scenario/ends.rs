//! The two ends of a random transfer, and the objects that they are in the simulated kernel.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use super::Faults;
use crate::sim::channel::{Channel, Messages, Peer};
use crate::sim::kernel::SimKernel;
use crate::sim::objects::{BLOCK, File, Object, patterned};
use crate::sys::Errno;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Block,
    Pipe,
    Stream,
    Messages,
    /// `/dev/urandom` as a source, `/dev/null` as a sink.
    Device,
}

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "drawn one by one")]
pub(crate) struct SourceSpec {
    pub(crate) kind: Kind,
    pub(crate) len: usize,
    /// The position in a file at which the transfer starts.
    pub(crate) start: u64,
    pub(crate) is_positional: bool,
    pub(crate) is_nonblocking: bool,
    pub(crate) is_direct: bool,
    /// The first block and the number of blocks of each range of zeros. They are holes if the file
    /// is sparse.
    pub(crate) zeros: Vec<(usize, usize)>,
    pub(crate) is_sparse: bool,
    /// The size that `fstat(2)` reports, in percent of the true size [default: the true size].
    pub(crate) claimed_size: Option<u64>,
    pub(crate) magic: u64,
    /// Whether a pipe holds packets.
    pub(crate) is_packet: bool,
    /// The number of bytes that come as a stream before them.
    pub(crate) packets_from: u64,
    /// Whether the peer of a pipe or socket sends pages of a file, as `splice(2)` does.
    pub(crate) sends_pages: bool,
    /// The positions before which the peer of a stream socket sends an urgent byte, in ascending
    /// order.
    pub(crate) urgent_marks: Vec<u64>,
    pub(crate) chunks: Vec<usize>,
    pub(crate) delays: Vec<u64>,
    pub(crate) timeout: Option<u64>,
}

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "drawn one by one")]
pub(crate) struct SinkSpec {
    pub(crate) kind: Kind,
    /// The length of a file before the transfer.
    pub(crate) len: usize,
    pub(crate) start: u64,
    pub(crate) is_positional: bool,
    pub(crate) is_nonblocking: bool,
    pub(crate) appends: bool,
    pub(crate) is_direct: bool,
    pub(crate) is_on_other_device: bool,
    pub(crate) is_packet: bool,
    pub(crate) capacity: usize,
    pub(crate) chunks: Vec<usize>,
    pub(crate) delays: Vec<u64>,
    pub(crate) timeout: Option<u64>,
}

impl SourceSpec {
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File | Kind::Block)
    }

    /// Returns all its bytes, including those before the start.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = patterned(self.len);
        for (first, n) in &self.zeros {
            let range = first * BLOCK..(first + n) * BLOCK;
            let range = range.start.min(self.len)..range.end.min(self.len);
            if self.kind != Kind::Device {
                bytes[range].fill(0);
            }
        }
        bytes
    }

    /// Returns the ranges of its holes.
    pub(crate) fn holes(&self) -> impl Iterator<Item = Range<u64>> {
        let is_sparse = self.is_sparse && self.kind == Kind::File;
        let holes = self.zeros.iter().filter(move |_| is_sparse);
        holes.map(|(first, n)| (first * BLOCK) as u64..((first + n) * BLOCK) as u64)
    }

    /// Returns the messages that a datagram socket receives.
    pub(crate) fn messages(&self) -> Vec<Vec<u8>> {
        let bytes = self.bytes();
        let (mut rest, mut messages) = (&bytes[..], Vec::new());
        let mut sizes = self.chunks.iter().copied();
        while !rest.is_empty() {
            let n = sizes.next().unwrap_or(32 << 10).min(rest.len());
            messages.push(rest[..n].to_vec());
            rest = &rest[n..];
        }
        messages
    }

    pub(crate) fn object(&self, faults: &Faults) -> Object {
        let bytes = self.bytes();
        match self.kind {
            Kind::File | Kind::Block => {
                let mut file = if self.is_sparse {
                    File::sparse(&bytes)
                } else {
                    File::holding(&bytes)
                };
                file.magic = self.magic;
                file.is_block_device = self.kind == Kind::Block;
                // A block fails as a whole.
                let granularity = if self.is_direct { BLOCK as u64 } else { 1 };
                let bad = |at: u64| (self.start + at) / granularity * granularity;
                file.bad = faults.source.map(|(at, errno)| (bad(at), errno));
                if self.kind == Kind::File {
                    // A hole beyond the true end could be copied like any other.
                    let most = if self.is_sparse { 100 } else { 120 };
                    let claimed_size = self.claimed_size.map(|percent| percent.min(most));
                    file.claimed_size = claimed_size.map(|percent| self.len as u64 * percent / 100);
                }
                Object::File(file)
            }
            Kind::Pipe | Kind::Stream => {
                let peer = Peer::Writes {
                    rest: bytes,
                    chunks: self.chunks.iter().copied().collect(),
                    has_closed: false,
                };
                let is_stream = self.kind == Kind::Stream;
                let mut channel = Channel::new(64 << 10, is_stream, peer);
                channel.timing.delays = millis(&self.delays);
                channel.is_packet = self.is_packet && !is_stream;
                channel.packets_from = self.packets_from;
                if is_stream {
                    channel.urgent_marks = self.urgent_marks.iter().copied().collect();
                    channel.timing.timeout = self.timeout.map(Duration::from_millis);
                    channel.fails_after =
                        faults.source.map(|(at, errno)| (at, socket_errno(errno)));
                }
                Object::Channel(channel)
            }
            Kind::Messages => {
                let mut messages = Messages::written_by_peer(&self.messages());
                messages.timing.delays = millis(&self.delays);
                messages.timing.timeout = self.timeout.map(Duration::from_millis);
                Object::Messages(messages)
            }
            Kind::Device => Object::Random(0),
        }
    }
}

impl SourceSpec {
    /// Makes the peer of an open source send pages of a file, if the description says so.
    pub(crate) fn send_pages(&self, kernel: &SimKernel, source: &OwnedFd) {
        if !self.sends_pages {
            return;
        }
        let mut state = kernel.state.borrow_mut();
        let lent = state.objects.len();
        state
            .objects
            .push(Object::File(File::holding(&self.bytes())));
        let object = state.descriptor(source.as_raw_fd()).object;
        if let Object::Channel(channel) = &mut state.objects[object] {
            channel.pages_of = Some(lent);
        }
    }
}

/// Replaces an errno that no socket returns.
fn socket_errno(errno: Errno) -> Errno {
    match errno {
        Errno::IO | Errno::INVAL => Errno::CONNRESET,
        Errno::STALE => Errno::HOSTUNREACH,
        _ => Errno::TIMEDOUT,
    }
}

fn millis(delays: &[u64]) -> VecDeque<Duration> {
    delays.iter().copied().map(Duration::from_millis).collect()
}

impl SinkSpec {
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File | Kind::Block)
    }

    /// Returns the contents of a file before the transfer.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![b'x'; self.len];
        bytes.iter_mut().step_by(7).for_each(|byte| *byte = b'y');
        bytes
    }

    pub(crate) fn object(&self, source: &SourceSpec, faults: &Faults) -> Object {
        match self.kind {
            Kind::File | Kind::Block => {
                let mut file = File::holding(&self.bytes());
                file.magic = source.magic;
                file.is_block_device = self.kind == Kind::Block;
                file.device += u64::from(self.is_on_other_device);
                let start = if self.appends {
                    self.len as u64
                } else {
                    self.start
                };
                file.bad = faults.sink.map(|(at, errno)| (start + at, errno));
                Object::File(file)
            }
            Kind::Pipe | Kind::Stream => {
                let peer = Peer::Reads {
                    taken: Vec::new(),
                    chunks: self.chunks.iter().copied().collect(),
                };
                let is_stream = self.kind == Kind::Stream;
                let mut channel = Channel::new(self.capacity, is_stream, peer);
                channel.timing.delays = millis(&self.delays);
                channel.is_packet = self.is_packet && !is_stream;
                channel.expects_packets = channel.is_packet;
                channel.fails_after = faults.sink.map(|(at, errno)| match errno {
                    _ if !is_stream => (at, Errno::PIPE),
                    Errno::NOSPC | Errno::IO => (at, Errno::PIPE),
                    errno => (at, socket_errno(errno)),
                });
                if is_stream {
                    channel.timing.timeout = self.timeout.map(Duration::from_millis);
                }
                Object::Channel(channel)
            }
            Kind::Messages => {
                let mut messages = Messages::default();
                messages.timing.delays = millis(&self.delays);
                Object::Messages(messages)
            }
            Kind::Device => Object::Null(Vec::new()),
        }
    }
}
