//! Digests made in threads of their own, while whoever has the bytes goes on.
//!
//! Each thread has an inbox, and [`Streams`] of many files under way, so that their blocks fill the lanes of vector registers where that
//! pays. A file's blocks are copied into as many buffers as its queue has: whoever is so far ahead waits for one to come back.
//!
//! To hand a short file over takes longer than to hash it. Where there are lanes to fill it is kept, and hashed together with its neighbours by who
//! copies them; otherwise it is hashed as it passes. So is a larger one where there are no lanes and as many are under way as there are threads:
//! handing over costs a copy, and pays only while a core would be idle.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, Scope};

use streams::Streams;

use crate::digest::{Algorithm, Digest, Stream, Way, digest_each};

mod streams;

/// How many messages a thread's inbox holds. Who finds it full waits.
const INBOX: usize = 256;

/// Files up to this size are hashed by who copies them: 256 KiB. To hand one over costs a copy and two turns of the scheduler.
pub(super) const SHORT: u64 = 256 << 10;

/// So much of a stream is hashed at once where it has to wait for others, at most: 128 KiB, which take less than a millisecond.
const PIECE: usize = 128 << 10;

/// How many streams a thread hashes together; one, if none.
pub(super) fn lanes(algorithm: Algorithm, way: Way) -> usize {
    match algorithm {
        Algorithm::Sha256 => way.lanes(),
        Algorithm::Blake3 => 1,
    }
}

/// What of each stream may wait to be hashed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// How many blocks.
    pub(super) size: usize,
    /// How long these are, as a rule, in bytes.
    pub(super) block_size: usize,
}

impl Queue {
    /// The same, in pieces of one length that do not have others wait for long.
    fn in_pieces(self) -> Self {
        let n_pieces = self.block_size.div_ceil(PIECE).max(1);
        Self {
            size: self.size * n_pieces,
            block_size: self.block_size.div_ceil(n_pieces),
        }
    }

    /// How many, if they are so long: not more in all, but two at least, if there may be two, so that one can be filled while the other is hashed.
    fn most(self, len: usize) -> usize {
        let fitting = self.size.saturating_mul(self.block_size) / len.max(1);
        fitting.max(2).min(self.size)
    }
}

/// The threads.
#[derive(Debug)]
pub(super) struct Hashers {
    algorithm: Algorithm,
    queue: Queue,
    way: Way,
    /// How many streams keep a thread busy. Where it is one, no stream waits for others.
    n_lanes: usize,
    /// How many streams are under way, wherever they are hashed.
    n_streams: AtomicUsize,
    threads: Vec<Hasher>,
    n_taps: AtomicUsize,
}

/// A thread, as others see it.
#[derive(Debug)]
struct Hasher {
    inbox: SyncSender<Message>,
    /// How many streams it has.
    n_open: AtomicUsize,
}

/// What a thread is told. Streams are named by their [taps](Tap), of which each has one at a time.
#[derive(Debug)]
enum Message {
    Open(usize, Sender<Reply>),
    Bytes(usize, Vec<u8>),
    End(usize),
    Abandon(usize),
}

/// What comes back.
#[derive(Debug)]
enum Reply {
    /// A buffer that can be filled again.
    Buffer(Vec<u8>),
    Digest(Digest),
}

impl Hashers {
    /// Starts them. They end when this is dropped, with all taps.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        algorithm: Algorithm,
        way: Way,
        n_threads: usize,
        queue: Queue,
    ) -> Self {
        let threads = (0..n_threads).map_while(|_| {
            let (inbox, messages) = sync_channel(INBOX);
            let work = move || Streams::new(algorithm, way).serve(&messages);
            // With fewer threads it takes longer, and without any each file is hashed by who copies it.
            thread::Builder::new().spawn_scoped(scope, work).ok()?;
            Some(Hasher {
                inbox,
                n_open: AtomicUsize::new(0),
            })
        });
        let n_lanes = lanes(algorithm, way);
        Self {
            algorithm,
            queue: if n_lanes > 1 {
                queue.in_pieces()
            } else {
                queue
            },
            way,
            n_lanes,
            n_streams: AtomicUsize::new(0),
            threads: threads.collect(),
            n_taps: AtomicUsize::new(0),
        }
    }

    /// The thread for another stream: the busiest one that has a lane left, since full lanes take no longer than half of them.
    fn choose(&self) -> Option<&Hasher> {
        let n_open = |hasher: &&Hasher| hasher.n_open.load(Ordering::Relaxed);
        let has_room = |hasher: &&Hasher| n_open(hasher) < self.n_lanes;
        let threads = self.threads.iter();
        let busiest = threads.clone().filter(has_room).max_by_key(n_open);
        busiest.or_else(|| threads.min_by_key(n_open))
    }

    /// A way to have streams hashed, one after another.
    pub(super) fn tap(&self) -> Tap<'_> {
        Tap {
            hashers: self,
            id: self.n_taps.fetch_add(1, Ordering::Relaxed),
            // Of a stream that has ended before it began.
            replies: channel().1,
            spare: Vec::new(),
            n_buffers: 0,
        }
    }
}

/// Has streams hashed, one after another.
#[derive(Debug)]
pub(super) struct Tap<'h> {
    hashers: &'h Hashers,
    id: usize,
    /// What comes back of the stream at hand. Nothing more can, once its thread has ended.
    replies: Receiver<Reply>,
    spare: Vec<Vec<u8>>,
    /// How many buffers there are: spare ones, and those of the stream at hand.
    n_buffers: usize,
}

impl<'h> Tap<'h> {
    /// Begins a stream of about so many bytes.
    pub(super) fn begin(&mut self, size: u64) -> Flow<'_, 'h> {
        let hashers = self.hashers;
        let n_streams = hashers.n_streams.fetch_add(1, Ordering::Relaxed);
        let has_lanes = hashers.n_lanes > 1;
        let keeps_cores_busy = n_streams >= hashers.threads.len();
        let course = match hashers.choose() {
            _ if has_lanes && size <= SHORT => Course::Kept(Vec::with_capacity(size as usize)),
            Some(hasher) if size > SHORT && (has_lanes || !keeps_cores_busy) => {
                hasher.n_open.fetch_add(1, Ordering::Relaxed);
                // Without a bound of its own, so that no thread ever waits for who asked: there are as many buffers as the queue has.
                let (reply, replies) = channel();
                self.replies = replies;
                // Those of a stream that was given up are gone with it.
                self.n_buffers = self.spare.len();
                let opened = Message::Open(self.id, reply);
                // If the thread is no more, that shows at the end.
                let _ = hasher.inbox.send(opened);
                Course::There(Line {
                    hasher,
                    tap: self,
                    has_ended: false,
                })
            }
            _ => Course::Here(Stream::new(hashers.algorithm)),
        };
        Flow {
            course,
            counted: Counted(hashers),
        }
    }

    /// A buffer that nobody uses, for so many bytes; none, if the threads have ended.
    fn buffer(&mut self, len: usize) -> Option<Vec<u8>> {
        let most = self.hashers.queue.most(len);
        // Each may become as long as the longest block.
        while self.n_buffers > most && self.spare.pop().is_some() {
            self.n_buffers -= 1;
        }
        loop {
            if self.n_buffers - self.spare.len() < most {
                let buffer = self.spare.pop().unwrap_or_else(|| {
                    self.n_buffers += 1;
                    Vec::new()
                });
                return Some(buffer);
            }
            match self.replies.recv().ok()? {
                Reply::Buffer(buffer) => self.spare.push(buffer),
                // No digest comes before its end.
                Reply::Digest(_) => return None,
            }
        }
    }

    /// The digest of what passed.
    pub(super) fn digest_of(&self, contents: &Contents) -> Digest {
        match contents {
            Contents::Digested(digest) => *digest,
            Contents::Kept(bytes) => self.digest_of_bytes(bytes),
        }
    }

    /// The digest of these bytes.
    pub(super) fn digest_of_bytes(&self, bytes: &[u8]) -> Digest {
        let mut stream = Stream::new(self.hashers.algorithm);
        stream.update(bytes);
        stream.finish()
    }

    /// The digests of what was kept, made together.
    pub(super) fn digests(&self, kept: &[&[u8]]) -> Vec<Digest> {
        let mut digests = vec![Digest::from_bytes([0; Digest::BYTES]); kept.len()];
        let Hashers { algorithm, way, .. } = *self.hashers;
        digest_each(algorithm, way, kept, &mut digests);
        digests
    }

    /// The digest of the stream that has ended.
    fn digest(&mut self) -> Option<Digest> {
        loop {
            match self.replies.recv().ok()? {
                Reply::Buffer(buffer) => self.spare.push(buffer),
                Reply::Digest(digest) => return Some(digest),
            }
        }
    }
}

/// What a stream has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// It has been hashed.
    Digested(Digest),
    /// It is short, and to be hashed [together](Tap::digests) with others.
    Kept(Vec<u8>),
}

/// A stream under way. One that is dropped is given up.
#[derive(Debug)]
pub(super) struct Flow<'t, 'h> {
    course: Course<'t, 'h>,
    counted: Counted<'h>,
}

/// Counts down when it is over.
#[derive(Debug)]
struct Counted<'h>(&'h Hashers);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.n_streams.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
enum Course<'t, 'h> {
    /// To be hashed later, with others.
    Kept(Vec<u8>),
    /// Hashed at once.
    Here(Stream),
    /// Hashed by another thread.
    There(Line<'t, 'h>),
}

#[derive(Debug)]
struct Line<'t, 'h> {
    hasher: &'h Hasher,
    tap: &'t mut Tap<'h>,
    has_ended: bool,
}

impl Flow<'_, '_> {
    /// These bytes come next.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        match &mut self.course {
            Course::Kept(kept) if kept.len() + bytes.len() <= SHORT as usize => {
                kept.extend_from_slice(bytes);
            }
            // There is more than was said.
            Course::Kept(kept) => {
                let mut stream = Stream::new(self.counted.0.algorithm);
                stream.update(kept);
                stream.update(bytes);
                self.course = Course::Here(stream);
            }
            Course::Here(stream) => stream.update(bytes),
            Course::There(line) => line.push(bytes),
        }
    }

    /// What the stream has come to; none, if the thread that hashed it has ended.
    pub(super) fn finish(self) -> Option<Contents> {
        match self.course {
            Course::Kept(kept) => Some(Contents::Kept(kept)),
            Course::Here(stream) => Some(Contents::Digested(stream.finish())),
            Course::There(line) => line.finish().map(Contents::Digested),
        }
    }
}

impl Line<'_, '_> {
    fn push(&mut self, bytes: &[u8]) {
        let hashers = self.tap.hashers;
        let most = match hashers.n_lanes {
            1 => usize::MAX,
            _ => hashers.queue.block_size,
        };
        for piece in bytes.chunks(most) {
            if let Some(mut buffer) = self.tap.buffer(piece.len()) {
                buffer.clear();
                buffer.extend_from_slice(piece);
                let _ = self.hasher.inbox.send(Message::Bytes(self.tap.id, buffer));
            }
        }
    }

    fn finish(mut self) -> Option<Digest> {
        self.has_ended = true;
        self.hasher.inbox.send(Message::End(self.tap.id)).ok()?;
        self.tap.digest()
    }
}

impl Drop for Line<'_, '_> {
    fn drop(&mut self) {
        self.hasher.n_open.fetch_sub(1, Ordering::Relaxed);
        if !self.has_ended {
            let _ = self.hasher.inbox.send(Message::Abandon(self.tap.id));
        }
    }
}

#[cfg(test)]
mod tests;
