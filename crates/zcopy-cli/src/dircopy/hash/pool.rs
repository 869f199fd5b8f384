//! Hashes files in threads of their own, while other threads read them.
//!
//! Each hashing thread has an inbox, and [`Streams`] of several files, so that their blocks fill
//! the lanes of vector registers, or those of two files are interleaved. A file's blocks are copied
//! into as many buffers as its queue has. A reader that has filled all of them waits until one comes
//! back.
//!
//! Handing over a short file takes longer than hashing it. Where several files are hashed together,
//! a short file is kept in memory, and the thread that copies it hashes it with its neighbours.
//! Where each is hashed by itself, the thread that copies a short file hashes it at once. It also
//! hashes a larger file if every hashing thread has one: handing over costs a copy, and only pays
//! while a core is idle.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::Scope;

use streams::Streams;

use crate::common::digest::{Algorithm, Backend, Digest, Stream, digest_each};
use crate::common::threads;

mod streams;

/// The size of a thread's inbox in messages. A sender waits while the inbox is full.
const INBOX: usize = 256;

/// Files up to this size are hashed by the thread that copies them: 256 KiB. Handing one over costs
/// a copy and two context switches.
pub(crate) const SHORT: u64 = 256 << 10;

/// The most bytes of a stream that are hashed at once while other streams wait: 128 KiB, which take
/// less than a millisecond.
const PIECE: usize = 128 << 10;

/// The number of streams that a thread hashes together, at least 1.
pub(crate) fn lanes(algorithm: Algorithm, backend: Backend) -> usize {
    match algorithm {
        Algorithm::Sha256 => backend.lanes(),
        Algorithm::Blake3 | Algorithm::Several(_) => 1,
    }
}

/// The blocks of each stream that may wait to be hashed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    /// The number of blocks.
    pub(crate) size: usize,
    /// The usual length of a block in bytes.
    pub(crate) block_size: usize,
}

impl Queue {
    /// The same number of bytes, in blocks of up to [`PIECE`] bytes.
    fn in_pieces(self) -> Self {
        let n_pieces = self.block_size.div_ceil(PIECE).max(1);
        Self {
            size: self.size * n_pieces,
            block_size: self.block_size.div_ceil(n_pieces),
        }
    }

    /// The number of blocks of `len` bytes that may wait: no more bytes in all, but at least two
    /// blocks if the queue has two, so that one is filled while the other is hashed.
    fn most(self, len: usize) -> usize {
        let fitting = self.size.saturating_mul(self.block_size) / len.max(1);
        fitting.max(2).min(self.size)
    }
}

/// The hashing threads.
#[derive(Debug)]
pub(crate) struct HashPool {
    algorithm: Algorithm,
    queue: Queue,
    backend: Backend,
    /// The number of streams that a thread hashes together. If it is 1, no stream waits for others.
    n_lanes: usize,
    /// The number of open streams, in whichever thread they are hashed.
    n_streams: AtomicUsize,
    threads: Vec<Worker>,
    n_clients: AtomicUsize,
}

/// A hashing thread.
#[derive(Debug)]
struct Worker {
    inbox: SyncSender<Message>,
    /// The number of its open streams.
    n_open: AtomicUsize,
}

/// A message to a hashing thread. A stream has the number of its [`Client`], which opens one at a
/// time.
#[derive(Debug)]
enum Message {
    Open(usize, Sender<Reply>),
    Bytes(usize, Vec<u8>),
    DigestSoFar(usize),
    End(usize),
    Abandon(usize),
}

/// A reply of a hashing thread.
#[derive(Debug)]
enum Reply {
    /// A buffer that can be filled again.
    Buffer(Vec<u8>),
    DigestSoFar(Digest),
    Digest(Digest),
}

impl HashPool {
    /// Starts the threads. They exit when this and all clients have been dropped.
    pub(crate) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        algorithm: Algorithm,
        backend: Backend,
        n_threads: usize,
        queue: Queue,
    ) -> Self {
        let threads = (0..n_threads).map_while(|_| {
            let (inbox, messages) = sync_channel(INBOX);
            let work = move || Streams::new(algorithm, backend).serve(&messages);
            // With fewer threads hashing takes longer. Without any, the threads that copy files
            // hash them.
            threads::spawn_scoped(scope, work).ok()?;
            Some(Worker {
                inbox,
                n_open: AtomicUsize::new(0),
            })
        });
        let n_lanes = lanes(algorithm, backend);
        Self {
            algorithm,
            queue: if n_lanes > 1 {
                queue.in_pieces()
            } else {
                queue
            },
            backend,
            n_lanes,
            n_streams: AtomicUsize::new(0),
            threads: threads.collect(),
            n_clients: AtomicUsize::new(0),
        }
    }

    /// The thread for another stream: the busiest one with a free lane, because full lanes take as
    /// long as half-full ones.
    ///
    /// Two interleaved streams take longer than one, and less than one after another. They share a
    /// thread if the `n_streams` and this one leave no core idle: reading takes as long as hashing,
    /// so that each keeps two of them busy.
    fn choose(&self, n_streams: usize) -> Option<&Worker> {
        let n_open = |worker: &&Worker| worker.n_open.load(Ordering::Relaxed);
        let has_room = |worker: &&Worker| n_open(worker) < self.n_lanes;
        let threads = self.threads.iter();
        let idlest = threads.clone().min_by_key(n_open);
        let cores_are_idle = 2 * (n_streams + 1) <= self.threads.len();
        if cores_are_idle && !self.backend.has_vector_lanes() {
            return idlest;
        }
        threads.filter(has_room).max_by_key(n_open).or(idlest)
    }

    /// Makes a client, which hashes one stream after another.
    pub(crate) fn client(&self) -> Client<'_> {
        Client {
            pool: self,
            id: self.n_clients.fetch_add(1, Ordering::Relaxed),
            // Until a stream begins, no reply can come.
            replies: channel().1,
            spare: Vec::new(),
            n_buffers: 0,
            so_far: VecDeque::new(),
        }
    }
}

/// A client of the hashing threads, which hashes one stream after another.
#[derive(Debug)]
pub(crate) struct Client<'h> {
    pool: &'h HashPool,
    id: usize,
    /// Replies for the open stream. The channel is closed when the hashing thread exits.
    replies: Receiver<Reply>,
    spare: Vec<Vec<u8>>,
    /// The number of buffers: the spare ones, and those of the open stream.
    n_buffers: usize,
    /// Digests of the first bytes of the open stream, in the order of their requests.
    so_far: VecDeque<Digest>,
}

impl<'h> Client<'h> {
    /// Begins a stream of about `size` bytes. If it is short, and files are hashed together, its
    /// bytes are kept.
    pub(crate) fn begin(&mut self, size: u64) -> StreamHasher<'_, 'h> {
        if self.pool.n_lanes == 1 || size > SHORT {
            return self.begin_alone(size);
        }
        self.pool.n_streams.fetch_add(1, Ordering::Relaxed);
        StreamHasher {
            route: Route::Buffered(Vec::with_capacity(size as usize)),
            counted: Counted(self.pool),
        }
    }

    /// Begins a stream of about `size` bytes, whose digest is wanted before other streams begin.
    pub(crate) fn begin_alone(&mut self, size: u64) -> StreamHasher<'_, 'h> {
        let pool = self.pool;
        let n_streams = pool.n_streams.fetch_add(1, Ordering::Relaxed);
        let has_lanes = pool.n_lanes > 1;
        let keeps_cores_busy = n_streams >= pool.threads.len();
        let route = match pool.choose(n_streams) {
            Some(worker) if size > SHORT && (has_lanes || !keeps_cores_busy) => {
                worker.n_open.fetch_add(1, Ordering::Relaxed);
                let opened = self.open();
                // If the thread has exited, `finish` returns None.
                let _ = worker.inbox.send(opened);
                Route::Remote(Remote {
                    worker,
                    client: self,
                    has_ended: false,
                })
            }
            _ => Route::Local(Stream::new(pool.algorithm), VecDeque::new()),
        };
        StreamHasher {
            route,
            counted: Counted(pool),
        }
    }

    /// The message that opens a stream.
    fn open(&mut self) -> Message {
        // A hashing thread never waits for its client: the buffers bound this channel.
        let (reply, replies) = channel();
        self.replies = replies;
        // A stream that was abandoned has dropped its buffers.
        self.n_buffers = self.spare.len();
        self.so_far.clear();
        Message::Open(self.id, reply)
    }

    /// A free buffer for `len` bytes. None, if the hashing thread has exited.
    fn buffer(&mut self, len: usize) -> Option<Vec<u8>> {
        let most = self.pool.queue.most(len);
        // A buffer may be as long as the longest block so far, so longer blocks get fewer of them.
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
            let reply = self.replies.recv().ok()?;
            self.take(reply)?;
        }
    }

    /// The digest of these contents.
    pub(crate) fn digest_of(&self, contents: &Contents) -> Digest {
        match contents {
            Contents::Digest(digest) => *digest,
            Contents::Buffered(bytes) => self.digest_of_bytes(bytes),
        }
    }

    /// The digest of these bytes.
    pub(crate) fn digest_of_bytes(&self, bytes: &[u8]) -> Digest {
        let mut stream = Stream::new(self.pool.algorithm);
        stream.update(bytes);
        stream.finish()
    }

    /// The digests of several files, hashed together.
    pub(crate) fn digests(&self, buffered: &[&[u8]]) -> Vec<Digest> {
        let mut digests = vec![Digest::from_bytes([0; Digest::BYTES]); buffered.len()];
        let HashPool {
            algorithm, backend, ..
        } = *self.pool;
        digest_each(algorithm, backend, buffered, &mut digests);
        digests
    }

    /// Takes a reply for an open stream. None if it is the digest, which comes after `End`.
    fn take(&mut self, reply: Reply) -> Option<()> {
        match reply {
            Reply::Buffer(buffer) => self.spare.push(buffer),
            Reply::DigestSoFar(digest) => self.so_far.push_back(digest),
            Reply::Digest(_) => return None,
        }
        Some(())
    }

    /// Waits for the digest of the stream that has ended.
    fn digest(&mut self) -> Option<Digest> {
        loop {
            match self.replies.recv().ok()? {
                Reply::Buffer(buffer) => self.spare.push(buffer),
                Reply::DigestSoFar(digest) => self.so_far.push_back(digest),
                Reply::Digest(digest) => return Some(digest),
            }
        }
    }
}

/// The contents of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Their digest.
    Digest(Digest),
    /// The bytes of a short stream, which is hashed [together](Client::digests) with others.
    Buffered(Vec<u8>),
}

/// An open stream. Dropping it abandons it.
#[derive(Debug)]
pub(crate) struct StreamHasher<'t, 'h> {
    route: Route<'t, 'h>,
    counted: Counted<'h>,
}

/// Counts an open stream. Dropping it counts down.
#[derive(Debug)]
struct Counted<'h>(&'h HashPool);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.n_streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a stream is hashed.
#[derive(Debug)]
enum Route<'t, 'h> {
    /// Later, together with others.
    Buffered(Vec<u8>),
    /// By this thread, at once. The digests so far are those that were asked for.
    Local(Stream, VecDeque<Digest>),
    /// By a hashing thread.
    Remote(Remote<'t, 'h>),
}

#[derive(Debug)]
struct Remote<'t, 'h> {
    worker: &'h Worker,
    client: &'t mut Client<'h>,
    has_ended: bool,
}

impl StreamHasher<'_, '_> {
    /// Adds the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match &mut self.route {
            Route::Buffered(buffered) if buffered.len() + bytes.len() <= SHORT as usize => {
                buffered.extend_from_slice(bytes);
            }
            // The stream is longer than `begin` was told.
            Route::Buffered(buffered) => {
                let mut stream = Stream::new(self.counted.0.algorithm);
                stream.update(buffered);
                stream.update(bytes);
                self.route = Route::Local(stream, VecDeque::new());
            }
            Route::Local(stream, _) => stream.update(bytes),
            Route::Remote(remote) => remote.push(bytes),
        }
    }

    /// Forgets the bytes so far, and the digests that were asked for.
    pub(crate) fn restart(&mut self) {
        match &mut self.route {
            Route::Buffered(buffered) => buffered.clear(),
            Route::Local(stream, so_far) => {
                *stream = Stream::new(self.counted.0.algorithm);
                so_far.clear();
            }
            Route::Remote(remote) => remote.restart(),
        }
    }

    /// Asks for the digest of the bytes so far. A stream that [began alone](Client::begin_alone)
    /// answers, in the order of the requests.
    pub(crate) fn request_digest(&mut self) {
        match &mut self.route {
            Route::Buffered(_) => {}
            Route::Local(stream, so_far) => so_far.push_back(stream.clone().finish()),
            Route::Remote(remote) => {
                let message = Message::DigestSoFar(remote.client.id);
                // If the thread has exited, `wait_for_digest` returns None.
                let _ = remote.worker.inbox.send(message);
            }
        }
    }

    /// The next digest that was asked for, if it is there.
    pub(crate) fn requested_digest(&mut self) -> Option<Digest> {
        match &mut self.route {
            Route::Buffered(_) => None,
            Route::Local(_, so_far) => so_far.pop_front(),
            Route::Remote(remote) => remote.requested_digest(),
        }
    }

    /// Waits for the next digest that was asked for. None, if the hashing thread has exited.
    pub(crate) fn wait_for_digest(&mut self) -> Option<Digest> {
        match &mut self.route {
            Route::Buffered(_) => None,
            Route::Local(_, so_far) => so_far.pop_front(),
            Route::Remote(remote) => remote.wait_for_digest(),
        }
    }

    /// The contents of the whole stream. None, if the hashing thread has exited.
    pub(crate) fn finish(self) -> Option<Contents> {
        match self.route {
            Route::Buffered(buffered) => Some(Contents::Buffered(buffered)),
            Route::Local(stream, _) => Some(Contents::Digest(stream.finish())),
            Route::Remote(remote) => remote.finish().map(Contents::Digest),
        }
    }
}

impl Remote<'_, '_> {
    fn push(&mut self, bytes: &[u8]) {
        let pool = self.client.pool;
        let most = match pool.n_lanes {
            1 => usize::MAX,
            _ => pool.queue.block_size,
        };
        for piece in bytes.chunks(most) {
            if let Some(mut buffer) = self.client.buffer(piece.len()) {
                buffer.clear();
                buffer.extend_from_slice(piece);
                let _ = self
                    .worker
                    .inbox
                    .send(Message::Bytes(self.client.id, buffer));
            }
        }
    }

    fn restart(&mut self) {
        let id = self.client.id;
        let _ = self.worker.inbox.send(Message::Abandon(id));
        let opened = self.client.open();
        let _ = self.worker.inbox.send(opened);
    }

    fn requested_digest(&mut self) -> Option<Digest> {
        while self.client.so_far.is_empty() {
            let reply = self.client.replies.try_recv().ok()?;
            self.client.take(reply)?;
        }
        self.client.so_far.pop_front()
    }

    fn wait_for_digest(&mut self) -> Option<Digest> {
        while self.client.so_far.is_empty() {
            let reply = self.client.replies.recv().ok()?;
            self.client.take(reply)?;
        }
        self.client.so_far.pop_front()
    }

    fn finish(mut self) -> Option<Digest> {
        self.has_ended = true;
        self.worker.inbox.send(Message::End(self.client.id)).ok()?;
        self.client.digest()
    }
}

impl Drop for Remote<'_, '_> {
    fn drop(&mut self) {
        self.worker.n_open.fetch_sub(1, Ordering::Relaxed);
        if !self.has_ended {
            let _ = self.worker.inbox.send(Message::Abandon(self.client.id));
        }
    }
}

#[cfg(test)]
mod tests;
