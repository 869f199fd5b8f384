//! Pipes and sockets, and whoever is at their other end.

use std::collections::VecDeque;
use std::time::Duration;

use super::objects::{BLOCK, Found};
use super::queue::{Page, Part, Queue, joined};
use crate::sys::Errno;

/// A pipe, or one direction of a stream socket. It moves when somebody waits for it.
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
    /// Before which bytes the peer of a TCP socket sends an urgent one.
    pub(crate) urgent_marks: VecDeque<u64>,
    /// The file whose pages a feeding peer sends, if it does not send copies.
    pub(crate) pages_of: Option<usize>,
    /// Bytes that a feeding peer has sent.
    pub(crate) n_sent: u64,
    /// Bytes that have left, whoever took them.
    pub(crate) n_removed: u64,
    /// Bytes of packets that nobody will ever get.
    pub(crate) destroyed: u64,
    /// Bytes that came in as pages of a file.
    pub(crate) shared_page_bytes: u64,
    pub(crate) peer: Peer,
    pub(crate) timing: Timing,
    /// After how many bytes it fails. A stream's failure is told once; then it has ended.
    pub(crate) fails_after: Option<(u64, Errno)>,
    pub(crate) has_reported_error: bool,
    /// Bytes that the transfer has taken or put so far.
    pub(crate) n_transferred: u64,
}

/// Whoever is at the other end of a channel.
#[derive(Debug)]
pub(crate) enum Peer {
    /// Nobody: a private pipe.
    None,
    /// Feeds these bytes, in chunks of these sizes and then as much as fits, and closes.
    Writes {
        rest: Vec<u8>,
        chunks: VecDeque<usize>,
        has_closed: bool,
    },
    /// Takes chunks of these sizes, and then everything.
    Reads {
        taken: Vec<u8>,
        chunks: VecDeque<usize>,
    },
}

/// A datagram or seqpacket socket.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    pub(crate) queue: VecDeque<Vec<u8>>,
    /// What a feeding peer has yet to send; none of a taking one.
    pub(crate) rest: Option<VecDeque<Vec<u8>>>,
    pub(crate) has_closed: bool,
    pub(crate) taken: Vec<Vec<u8>>,
    pub(crate) timing: Timing,
}

/// When a peer moves.
#[derive(Debug, Default)]
pub(crate) struct Timing {
    pub(crate) delays: VecDeque<Duration>,
    /// When the peer, being waited for, will move.
    pub(crate) due: Option<Duration>,
    /// Nothing is to be had before, whatever the peer does.
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

    /// What passes before it breaks. A pipe's reader goes away between two calls.
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

    /// How many bytes come before the urgent byte that has arrived last.
    pub(crate) fn until_urgent_mark(&self) -> Option<usize> {
        let mark = *self.urgent_marks.front()?;
        (mark >= self.n_removed && mark <= self.n_sent).then_some((mark - self.n_removed) as usize)
    }

    /// Takes up to `n` bytes as `read(2)` does. It stops at an urgent byte, and goes past one that comes next.
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

    /// Takes up to `n` bytes as `splice(2)` does.
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

    /// Takes in what `write(2)` brings.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let part = Part::copied(bytes.to_vec());
        if self.is_packet {
            self.queue.push_packets(&part);
        } else {
            self.queue.push(part);
        }
    }

    /// Takes in what `splice(2)` or `tee(2)` brings.
    pub(crate) fn share(&mut self, parts: Vec<Part>) {
        for part in parts {
            if part.page.is_some() {
                self.shared_page_bytes += part.bytes.len() as u64;
            }
            self.queue.push(part);
        }
    }

    /// What a splice into it finds: a pipe takes pages, and a page needs a slot.
    pub(crate) fn has_slot(&self) -> bool {
        self.is_stream
            || self.capacity.saturating_sub(self.queue.len()) >= BLOCK
            || self.failure().is_some()
    }

    /// A third of a socket's buffer must be free (`sk_stream_is_writeable`), a slot of a pipe.
    pub(crate) fn polls_as_writable(&self) -> bool {
        let free = self.capacity.saturating_sub(self.queue.len());
        let has_room = if self.is_stream {
            free * 3 >= self.capacity
        } else {
            free >= BLOCK
        };
        has_room || self.failure().is_some()
    }

    /// The peer does the next thing that it has to do.
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
                self.n_sent += n as u64;
                if self.is_packet {
                    self.queue.push_packets(&part);
                } else {
                    self.queue.push(part);
                }
                // Of several urgent bytes a socket remembers the last.
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
                let n = n.min(self.queue.len());
                taken.append(&mut joined(&self.queue.take(n)));
            }
        }
    }
}

impl Messages {
    /// A socket whose peer sends these messages and closes.
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

/// The first `n` bytes, taken away.
pub(crate) fn take_front(bytes: &mut Vec<u8>, n: usize) -> Vec<u8> {
    let rest = bytes.split_off(n);
    std::mem::replace(bytes, rest)
}
