//! Digests of several streams, whose bytes come in pieces.

use sha256_streams::{Compressor, INITIAL, Job, State, digest, hash_jobs, padded};

use super::backend::Kind;
use super::{Algorithm, Backend, Digest, Stream};

/// The length of a SHA-256 block in bytes.
const BLOCK: usize = 64;

/// Computes the digests of several streams, and hashes their blocks at the same time.
///
/// [`push_together`](Self::push_together) takes bytes of several streams. It is fastest with the
/// same number of bytes of each: a stream with fewer bytes leaves its lane idle for the rest. The
/// [sequential](Backend::sequential) backend hashes one stream after another.
#[derive(Debug)]
pub struct MultiStream {
    algorithm: Algorithm,
    kind: Kind,
    slots: Vec<Slot>,
}

/// Identifies a stream of one [`MultiStream`].
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "a stream stays open until it is finished or abandoned"]
pub struct StreamId(usize);

/// An element of [`MultiStream::slots`], which a [`StreamId`] indexes.
#[derive(Debug)]
enum Slot {
    Free,
    /// A stream of the sequential backend.
    Sequential(Stream),
    /// A stream that is hashed in a lane.
    InLane(LaneStream),
}

/// A stream that is hashed in a lane, with other streams.
#[derive(Clone, Debug)]
struct LaneStream {
    state: State,
    n_bytes: u64,
    /// Bytes that have not been hashed: part of a block, or the last one or two blocks.
    waiting: Vec<u8>,
    /// Whether `waiting` contains the last block, with its padding.
    ended: bool,
}

impl MultiStream {
    /// Creates an instance with the [best](Backend::best) backend.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        Self::by(algorithm, Backend::best())
    }

    /// Creates an instance with this backend.
    #[must_use]
    pub fn by(algorithm: Algorithm, backend: Backend) -> Self {
        let kind = match algorithm {
            Algorithm::Sha256 => backend.kind(),
            Algorithm::Blake3 | Algorithm::Several(_) => Kind::Sequential,
        };
        Self {
            algorithm,
            kind,
            slots: Vec::new(),
        }
    }

    /// Opens a stream. Any number of streams may be open.
    pub fn open(&mut self) -> StreamId {
        let slot = match self.kind {
            Kind::Sequential => Slot::Sequential(Stream::new(self.algorithm)),
            Kind::MultiStream(_) => Slot::InLane(LaneStream::new()),
        };
        let is_free = |slot: &Slot| matches!(slot, Slot::Free);
        if let Some(at) = self.slots.iter().position(is_free) {
            self.slots[at] = slot;
            StreamId(at)
        } else {
            self.slots.push(slot);
            StreamId(self.slots.len() - 1)
        }
    }

    /// Adds the next bytes of one stream, and hashes them.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub fn push(&mut self, id: &StreamId, bytes: &[u8]) {
        self.push_together(&[(id, bytes)]);
    }

    /// Adds the next bytes of several streams, and hashes them. Copies only parts of blocks.
    ///
    /// This also hashes the last blocks of streams that have [ended](Self::end).
    ///
    /// # Panics
    ///
    /// If a stream has ended, or is given twice.
    pub fn push_together(&mut self, chunks: &[(&StreamId, &[u8])]) {
        match self.kind {
            Kind::Sequential => {
                for (id, bytes) in chunks {
                    if let Slot::Sequential(stream) = &mut self.slots[id.0] {
                        stream.update(bytes);
                    }
                }
            }
            Kind::MultiStream(compressor) => self.hash(compressor, chunks),
        }
    }

    /// Ends a stream, before [`finish`](Self::finish).
    ///
    /// The next call that hashes other streams also hashes the last block of this one.
    pub fn end(&mut self, id: &StreamId) {
        if let Slot::InLane(stream) = &mut self.slots[id.0] {
            stream.end();
        }
    }

    /// Closes a stream, and returns its digest.
    #[must_use]
    pub fn finish(&mut self, id: StreamId) -> Digest {
        self.end(&id);
        if let (Slot::InLane(stream), Kind::MultiStream(compressor)) =
            (&self.slots[id.0], self.kind)
            && !stream.waiting.is_empty()
        {
            self.hash(compressor, &[]);
        }
        match self.take(id) {
            Slot::Sequential(stream) => stream.finish(),
            Slot::InLane(stream) => Digest::from_bytes(digest(&stream.state)),
            Slot::Free => unreachable!("a stream is finished once"),
        }
    }

    /// The digest of the bytes that a stream has got so far. The stream stays open.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    #[must_use]
    pub fn digest_so_far(&mut self, id: &StreamId) -> Digest {
        let copy = match &self.slots[id.0] {
            Slot::Sequential(stream) => return stream.clone().finish(),
            Slot::InLane(stream) => {
                assert!(!stream.ended, "a stream that has ended has its digest");
                stream.clone()
            }
            Slot::Free => unreachable!("the stream is open"),
        };
        self.slots.push(Slot::InLane(copy));
        let digest = self.finish(StreamId(self.slots.len() - 1));
        self.slots.pop();
        digest
    }

    /// Closes a stream without a digest.
    pub fn abandon(&mut self, id: StreamId) {
        self.take(id);
    }

    /// Frees the slot of a stream.
    #[allow(clippy::needless_pass_by_value, reason = "the stream is closed")]
    fn take(&mut self, id: StreamId) -> Slot {
        std::mem::replace(&mut self.slots[id.0], Slot::Free)
    }

    /// Hashes all whole blocks of all streams, of the waiting bytes and of `chunks`.
    fn hash(&mut self, compressor: Compressor, chunks: &[(&StreamId, &[u8])]) {
        let mut n_found = 0;
        let jobs = self.slots.iter_mut().enumerate().filter_map(|(at, slot)| {
            let Slot::InLane(stream) = slot else {
                return None;
            };
            let bytes = bytes_of(at, chunks);
            n_found += usize::from(bytes.is_some());
            stream.job(bytes)
        });
        hash_jobs(compressor, jobs, |owner, state| *owner = state);
        assert_eq!(n_found, chunks.len(), "each open stream is given once");
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if let Slot::InLane(stream) = slot {
                stream.settle(bytes_of(at, chunks));
            }
        }
    }
}

/// Returns the next bytes of the stream in a slot.
fn bytes_of<'a>(slot: usize, chunks: &[(&StreamId, &'a [u8])]) -> Option<&'a [u8]> {
    let chunk = chunks.iter().find(|(id, _)| id.0 == slot);
    chunk.map(|(_, bytes)| *bytes)
}

impl LaneStream {
    /// Starts an empty stream.
    const fn new() -> Self {
        Self {
            state: INITIAL,
            n_bytes: 0,
            waiting: Vec::new(),
            ended: false,
        }
    }

    fn count(&mut self, bytes: &[u8]) {
        assert!(!self.ended, "a stream that has ended gets no more bytes");
        self.n_bytes += bytes.len() as u64;
    }

    /// Appends the padding to the waiting bytes.
    fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            let (blocks, n_blocks) = padded(&self.waiting, self.n_bytes);
            let last = blocks[..n_blocks].as_flattened();
            self.waiting.clear();
            self.waiting.extend_from_slice(last);
        }
    }

    /// Returns the whole blocks of the waiting bytes and of `bytes`. Call [`settle`](Self::settle)
    /// after they have been hashed.
    fn job<'a>(&'a mut self, bytes: Option<&'a [u8]>) -> Option<Job<'a, &'a mut State>> {
        let mut bytes = bytes.unwrap_or_default();
        let n_missing = self.waiting.len().next_multiple_of(BLOCK) - self.waiting.len();
        let (first, rest) = bytes.split_at(n_missing.min(bytes.len()));
        if !bytes.is_empty() {
            self.count(bytes);
            self.waiting.extend_from_slice(first);
            bytes = rest;
        }
        let (head, _) = self.waiting.as_chunks();
        let (body, _) = bytes.as_chunks();
        (!head.is_empty() || !body.is_empty()).then_some(Job {
            state: self.state,
            owner: &mut self.state,
            head,
            body,
            tail: ([[0; BLOCK]; 2], 0),
        })
    }

    /// Keeps the bytes behind the last whole block, after all whole blocks have been hashed.
    fn settle(&mut self, bytes: Option<&[u8]>) {
        let (blocks, rest) = self.waiting.as_chunks::<BLOCK>();
        if rest.is_empty() {
            // All waiting bytes were hashed. Only the last of the new bytes may remain.
            let n_left = (self.n_bytes % BLOCK as u64) as usize;
            self.waiting.clear();
            if let Some(bytes) = bytes {
                let n_left = n_left.min(bytes.len());
                self.waiting
                    .extend_from_slice(&bytes[bytes.len() - n_left..]);
            }
        } else {
            let n_hashed = blocks.len() * BLOCK;
            self.waiting.drain(..n_hashed);
        }
    }
}

#[cfg(test)]
mod tests;
