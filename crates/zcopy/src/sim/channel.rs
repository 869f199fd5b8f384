//! Pipes and sockets, and their peers.

use std::collections::VecDeque;
use std::time::Duration;

use super::objects::{BLOCK, Found};
use super::queue::{Page, Part, Queue, joined};
use crate::sys::Errno;

/// A pipe, or one direction of a stream socket. Its peer acts only while the transfer waits for it.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts, one by one")]
pub(crate) struct Channel {
    pub(crate) queue: Queue,
    pub(crate) capacity: usize,
    pub(crate) is_stream: bool,
    /// Whether it is a pseudo-terminal.
    pub(crate) is_terminal: bool,
    /// Whether each write makes packets (`O_DIRECT` of a pipe).
    pub(crate) is_packet: bool,
    /// The number of bytes that a writing peer sends as a stream before it sets `O_DIRECT`.
    pub(crate) packets_from: u64,
    /// Whether a reading peer has room for every packet.
    pub(crate) expects_packets: bool,
    /// The positions before which the peer of a TCP socket sends an urgent byte.
    pub(crate) urgent_marks: VecDeque<u64>,
    /// The file whose pages a writing peer sends [default: it sends copies].
    pub(crate) pages_of: Option<usize>,
    /// The number of bytes that a writing peer has sent.
    pub(crate) n_sent: u64,
    /// The number of bytes that have been removed by any process.
    pub(crate) n_removed: u64,
    /// The number of bytes of packets that reads have discarded.
    pub(crate) destroyed: u64,
    /// The number of bytes that arrived as pages of a file.
    pub(crate) shared_page_bytes: u64,
    pub(crate) peer: Peer,
    pub(crate) timing: Timing,
    /// The number of bytes after which it fails, and the errno. A stream returns its error once,
    /// and then reports its end.
    pub(crate) fails_after: Option<(u64, Errno)>,
    pub(crate) has_reported_error: bool,
    /// The number of bytes that the transfer has read or written.
    pub(crate) n_transferred: u64,
}

/// The process at the other end of a channel.
#[derive(Debug)]
pub(crate) enum Peer {
    /// None: this is a private pipe.
    None,
    /// Writes these bytes, in chunks of these sizes and then as much as fits, and closes.
    Writes {
        rest: Vec<u8>,
        chunks: VecDeque<usize>,
        has_closed: bool,
    },
    /// Reads chunks of these sizes, and then everything.
    Reads {
        taken: Vec<u8>,
        chunks: VecDeque<usize>,
    },
}

/// A datagram or seqpacket socket.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    pub(crate) queue: VecDeque<Vec<u8>>,
    /// The messages that a writing peer has yet to send; `None` for a reading peer.
    pub(crate) rest: Option<VecDeque<Vec<u8>>>,
    pub(crate) has_closed: bool,
    pub(crate) taken: Vec<Vec<u8>>,
    pub(crate) timing: Timing,
}

/// When a peer acts.
#[derive(Debug, Default)]
pub(crate) struct Timing {
    pub(crate) delays: VecDeque<Duration>,
    /// The time of the peer's next action, once the transfer waits for it.
    pub(crate) due: Option<Duration>,
    /// The time before which the object is not ready, whatever the peer does.
    pub(crate) stalled_until: Duration,
    /// `SO_RCVTIMEO` or `SO_SNDTIMEO`.
    pub(crate) timeout: Option<Duration>,
}

impl Channel {
    pub(crate) fn new(capacity: usize, is_stream: bool, peer: Peer) -> Self {
        Self {
            queue: Queue::default(),
            capacity,
            is_stream,
            is_terminal: false,
            is_packet: false,
            packets_from: 0,
            expects_packets: false,
            urgent_marks: VecDeque::new(),
            pages_of: None,
            n_sent: 0,
            n_removed: 0,
            destroyed: 0,
            shared_page_bytes: 0,
            peer,
            timing: Timing::default(),
            fails_after: None,
            has_reported_error: false,
            n_transferred: 0,
        }
    }

    pub(crate) fn failure(&self) -> Option<Errno> {
        self.fails_after
            .filter(|(after, _)| self.n_transferred >= *after)
            .map(|(_, errno)| errno)
    }

    /// Returns the number of bytes before a stream fails. The reader of a pipe closes it between
    /// two calls.
    pub(crate) fn bytes_until_failure(&self) -> usize {
        if !self.is_stream {
            return usize::MAX;
        }
        let (after, _) = self.fails_after.unwrap_or((u64::MAX, Errno::IO));
        usize::try_from(after - self.n_transferred.min(after)).unwrap_or(usize::MAX)
    }

    pub(crate) fn readable(&self) -> Found {
        if let Some(errno) = self.failure() {
            return if self.has_reported_error {
                Found::End
            } else {
                Found::Failed(errno)
            };
        }
        match (self.queue.len().min(self.bytes_until_failure()), &self.peer) {
            (
                0,
                Peer::Writes {
                    has_closed: true, ..
                },
            ) => Found::End,
            (0, _) => Found::Later,
            (n, _) => Found::Some(n),
        }
    }

    pub(crate) fn writable(&self) -> Found {
        match self.failure() {
            Some(_) if self.has_reported_error && self.is_stream => {
                return Found::Failed(Errno::PIPE);
            }
            Some(errno) => return Found::Failed(errno),
            None => {}
        }
        match (self.capacity.saturating_sub(self.queue.len())).min(self.bytes_until_failure()) {
            0 => Found::Later,
            n => Found::Some(n),
        }
    }

    /// Returns the number of bytes before the urgent byte that arrived last.
    pub(crate) fn until_urgent_mark(&self) -> Option<usize> {
        let mark = *self.urgent_marks.front()?;
        (mark >= self.n_removed && mark <= self.n_sent).then_some((mark - self.n_removed) as usize)
    }

    /// Removes up to `n` bytes as `read(2)` does: it stops before an urgent byte, and starts past
    /// one at its position.
    pub(crate) fn read(&mut self, n: usize) -> Vec<u8> {
        let n = match self.until_urgent_mark() {
            Some(0) => {
                self.urgent_marks.pop_front();
                n
            }
            Some(before) => n.min(before),
            None => n,
        };
        let read = self.queue.read(n);
        self.note_removed(read.bytes.len() + read.destroyed);
        self.destroyed += read.destroyed as u64;
        read.bytes
    }

    /// Removes up to `n` bytes as `splice(2)` does.
    pub(crate) fn take(&mut self, n: usize) -> Vec<Part> {
        let parts = self.queue.take(n);
        self.note_removed(parts.iter().map(|part| part.bytes.len()).sum());
        parts
    }

    fn note_removed(&mut self, n: usize) {
        self.n_removed += n as u64;
        while self
            .urgent_marks
            .front()
            .is_some_and(|mark| *mark < self.n_removed)
        {
            self.urgent_marks.pop_front();
        }
    }

    /// Adds the bytes of a `write(2)`.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let part = Part::copied(bytes.to_vec());
        if self.is_packet {
            self.queue.push_packets(&part);
        } else {
            self.queue.push(part);
        }
    }

    /// Adds the pages of a `splice(2)` or `tee(2)`.
    pub(crate) fn share(&mut self, parts: Vec<Part>) {
        for mut part in parts {
            part.is_packet &= !self.is_stream;
            if part.page.is_some() {
                self.shared_page_bytes += part.bytes.len() as u64;
            }
            self.queue.push(part);
        }
    }

    /// Returns whether a pipe has a free slot, which each page needs.
    pub(crate) fn has_slot(&self) -> bool {
        self.is_stream
            || self.capacity.saturating_sub(self.queue.len()) >= BLOCK
            || self.failure().is_some()
    }

    /// Returns whether `poll(2)` reports it as writable: a third of a socket's buffer is free
    /// (`sk_stream_is_writeable`), or a slot of a pipe.
    pub(crate) fn polls_as_writable(&self) -> bool {
        let free = self.capacity.saturating_sub(self.queue.len());
        let has_room = if self.is_stream {
            free * 3 >= self.capacity
        } else {
            free >= BLOCK
        };
        has_room || self.failure().is_some()
    }

    /// Lets the peer make its next read or write.
    pub(crate) fn advance_peer(&mut self) {
        let free = self.capacity.saturating_sub(self.queue.len());
        match &mut self.peer {
            Peer::None => panic!("a private pipe is waited for"),
            Peer::Writes {
                rest,
                chunks,
                has_closed,
            } => {
                if rest.is_empty() {
                    *has_closed = true;
                    return;
                }
                let n = chunks.pop_front().unwrap_or(usize::MAX).max(1);
                let n = n.min(free).min(rest.len());
                let page = self.pages_of.map(|object| Page {
                    object,
                    position: self.n_sent,
                });
                let part = Part {
                    page,
                    ..Part::copied(take_front(rest, n))
                };
                let was_sent = self.n_sent;
                self.n_sent += n as u64;
                if self.is_packet && was_sent >= self.packets_from {
                    self.queue.push_packets(&part);
                } else {
                    self.queue.push(part);
                }
                // A socket remembers only the last urgent byte.
                while self
                    .urgent_marks
                    .get(1)
                    .is_some_and(|mark| *mark <= self.n_sent)
                {
                    self.urgent_marks.pop_front();
                }
            }
            Peer::Reads { taken, chunks } => {
                let n = chunks.pop_front().unwrap_or(usize::MAX).max(1);
                let mut read = if self.expects_packets {
                    joined(&self.queue.take(n))
                } else {
                    self.queue.read(n).bytes
                };
                taken.append(&mut read);
            }
        }
    }
}

impl Messages {
    /// Returns a socket whose peer sends these messages and closes.
    pub(crate) fn written_by_peer(messages: &[Vec<u8>]) -> Self {
        Self {
            rest: Some(messages.iter().cloned().collect()),
            ..Self::default()
        }
    }

    pub(crate) fn readable(&self) -> Found {
        match self.queue.front() {
            Some(message) => Found::Some(message.len()),
            None if self.has_closed => Found::End,
            None => Found::Later,
        }
    }

    pub(crate) fn advance_peer(&mut self) {
        match &mut self.rest {
            Some(rest) => match rest.pop_front() {
                Some(message) => self.queue.push_back(message),
                None => self.has_closed = true,
            },
            None => self.taken.extend(self.queue.drain(..)),
        }
    }
}

/// Removes and returns the first `n` bytes.
pub(crate) fn take_front(bytes: &mut Vec<u8>, n: usize) -> Vec<u8> {
    let rest = bytes.split_off(n);
    std::mem::replace(bytes, rest)
}
