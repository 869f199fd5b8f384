//! The digests of many streams at once, whose bytes come bit by bit.

use fearless_simd::Level;

use super::sha256::together::{Job, run};
use super::sha256::{INITIAL, State, digest, padded};
use super::way::Kind;
use super::{Algorithm, Digest, Stream, Way};

/// What is hashed in one go, in bytes.
const BLOCK: usize = 64;

/// Digests of several streams under way, whose blocks are hashed together.
///
/// Whoever has bytes of several streams at hand gives them by [`push_together`](Self::push_together), and as many of each: a stream that
/// gives less than the others leaves its lane idle for the rest. Where streams are hashed [one by one](Way::one_by_one), all are.
///
/// # Examples
///
/// ```
/// use zcopy_cli::digest::{Algorithm, Lanes, digests};
///
/// let mut lanes = Lanes::new(Algorithm::Sha256);
/// let (one, two) = (lanes.open(), lanes.open());
/// lanes.push_together(&[(&one, b"a"), (&two, b"x")]);
/// lanes.push(&one, b"bc");
/// assert_eq!(lanes.finish(one), digests(Algorithm::Sha256, &[b"abc"])[0]);
/// assert_eq!(lanes.finish(two), digests(Algorithm::Sha256, &[b"x"])[0]);
/// ```
#[derive(Debug)]
pub struct Lanes {
    algorithm: Algorithm,
    kind: Kind,
    slots: Vec<Slot>,
}

/// A stream of [`Lanes`]. Of another one's it means nothing.
///
/// # Examples
///
/// ```
/// use zcopy_cli::digest::{Algorithm, Lanes};
///
/// let mut lanes = Lanes::new(Algorithm::Sha256);
/// assert_ne!(lanes.open(), lanes.open());
/// ```
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "a lane that is neither finished nor dropped stays open"]
pub struct Lane(usize);

#[derive(Debug)]
enum Slot {
    Free,
    /// Hashed by itself.
    Alone(Stream),
    /// Hashed with others.
    Shared(Shared),
}

/// A stream whose blocks are hashed with those of others.
#[derive(Debug)]
struct Shared {
    state: State,
    n_bytes: u64,
    /// Bytes that have not been hashed: part of a block, or the last one or two.
    waiting: Vec<u8>,
    /// The last block has been put there, with its padding.
    ended: bool,
}

impl Lanes {
    /// No streams yet. They will be hashed the [best](Way::best) way.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::{Algorithm, Lanes};
    ///
    /// let mut lanes = Lanes::new(Algorithm::Blake3);
    /// let empty = lanes.open();
    /// assert!(lanes.finish(empty).to_string().starts_with("af1349b9"));
    /// ```
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        Self::by(algorithm, Way::best())
    }

    /// No streams yet. They will be hashed this way.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::{Algorithm, Lanes, Way};
    ///
    /// for way in Way::all() {
    ///     let mut lanes = Lanes::by(Algorithm::Sha256, way);
    ///     let lane = lanes.open();
    ///     lanes.push(&lane, b"abc");
    ///     assert!(lanes.finish(lane).to_string().starts_with("ba7816bf"));
    /// }
    /// ```
    #[must_use]
    pub fn by(algorithm: Algorithm, way: Way) -> Self {
        let kind = match algorithm {
            Algorithm::Sha256 => way.kind(),
            Algorithm::Blake3 => Kind::OneByOne,
        };
        Self {
            algorithm,
            kind,
            slots: Vec::new(),
        }
    }

    /// A new stream. As many as liked may be open.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::{Algorithm, Lanes};
    ///
    /// let mut lanes = Lanes::new(Algorithm::Sha256);
    /// let open: Vec<_> = (0..20).map(|_| lanes.open()).collect();
    /// for lane in open {
    ///     assert!(lanes.finish(lane).to_string().starts_with("e3b0c442"));
    /// }
    /// ```
    pub fn open(&mut self) -> Lane {
        let slot = match self.kind {
            Kind::OneByOne => Slot::Alone(Stream::new(self.algorithm)),
            Kind::Lanes(_) => Slot::Shared(Shared::new()),
        };
        let is_free = |slot: &Slot| matches!(slot, Slot::Free);
        if let Some(at) = self.slots.iter().position(is_free) {
            self.slots[at] = slot;
            Lane(at)
        } else {
            self.slots.push(slot);
            Lane(self.slots.len() - 1)
        }
    }

    /// These bytes come next in this stream, and are hashed by themselves.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::{Algorithm, Lanes};
    ///
    /// let mut lanes = Lanes::new(Algorithm::Sha256);
    /// let lane = lanes.open();
    /// for byte in b"abc" {
    ///     lanes.push(&lane, &[*byte]);
    /// }
    /// assert!(lanes.finish(lane).to_string().starts_with("ba7816bf"));
    /// ```
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub fn push(&mut self, lane: &Lane, bytes: &[u8]) {
        self.push_together(&[(lane, bytes)]);
    }

    /// These bytes come next in these streams. None of them are copied, but for parts of blocks.
    ///
    /// The last blocks of streams that have [ended](Self::end) are hashed along with them.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::{Algorithm, Lanes, digests};
    ///
    /// let mut lanes = Lanes::new(Algorithm::Sha256);
    /// let (one, two) = (lanes.open(), lanes.open());
    /// lanes.push_together(&[(&one, &[1; 1000]), (&two, &[2; 3000])]);
    /// let expected = digests(Algorithm::Sha256, &[&[1; 1000], &[2; 3000]]);
    /// assert_eq!([lanes.finish(one), lanes.finish(two)], expected[..]);
    /// ```
    ///
    /// # Panics
    ///
    /// If a stream has ended, or is named twice.
    pub fn push_together(&mut self, chunks: &[(&Lane, &[u8])]) {
        match self.kind {
            Kind::OneByOne => {
                for (lane, bytes) in chunks {
                    if let Slot::Alone(stream) = &mut self.slots[lane.0] {
                        stream.update(bytes);
                    }
                }
            }
            Kind::Lanes(level) => self.hash(level, chunks),
        }
    }

    /// No more bytes come in this stream, whose digest is asked for later.
    ///
    /// Its last block is hashed together with those of others, which it would not be if the digest were asked for at once.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::{Algorithm, Lanes, digests};
    ///
    /// let mut lanes = Lanes::new(Algorithm::Sha256);
    /// let files: [&[u8]; 3] = [b"one", b"two", b"three"];
    /// let ended = files.map(|file| {
    ///     let lane = lanes.open();
    ///     lanes.push(&lane, file);
    ///     lanes.end(&lane);
    ///     lane
    /// });
    /// let found = ended.map(|lane| lanes.finish(lane));
    /// assert_eq!(found[..], digests(Algorithm::Sha256, &files));
    /// ```
    pub fn end(&mut self, lane: &Lane) {
        if let Slot::Shared(shared) = &mut self.slots[lane.0] {
            shared.end();
        }
    }

    /// The digest of a stream, which is over.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::{Algorithm, Lanes};
    ///
    /// let mut lanes = Lanes::new(Algorithm::Sha256);
    /// let lane = lanes.open();
    /// lanes.push(&lane, b"abc");
    /// assert!(lanes.finish(lane).to_string().starts_with("ba7816bf"));
    /// ```
    #[must_use]
    pub fn finish(&mut self, lane: Lane) -> Digest {
        self.end(&lane);
        if let (Slot::Shared(shared), Kind::Lanes(level)) = (&self.slots[lane.0], self.kind)
            && !shared.waiting.is_empty()
        {
            self.hash(level, &[]);
        }
        match self.take(lane) {
            Slot::Alone(stream) => stream.finish(),
            Slot::Shared(shared) => digest(&shared.state),
            Slot::Free => unreachable!("a lane is finished once"),
        }
    }

    /// Nobody wants the digest of this stream any more.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::{Algorithm, Lanes};
    ///
    /// let mut lanes = Lanes::new(Algorithm::Sha256);
    /// let (vanished, kept) = (lanes.open(), lanes.open());
    /// lanes.push(&vanished, b"half of a fi");
    /// lanes.abandon(vanished);
    /// assert!(lanes.finish(kept).to_string().starts_with("e3b0c442"));
    /// ```
    pub fn abandon(&mut self, lane: Lane) {
        self.take(lane);
    }

    /// Frees the place of a stream.
    #[allow(clippy::needless_pass_by_value, reason = "a lane ends here")]
    fn take(&mut self, lane: Lane) -> Slot {
        std::mem::replace(&mut self.slots[lane.0], Slot::Free)
    }

    /// Hashes all blocks of all streams: those that wait, and those of these bytes.
    fn hash(&mut self, level: Level, chunks: &[(&Lane, &[u8])]) {
        let mut n_found = 0;
        let jobs = self.slots.iter_mut().enumerate().filter_map(|(at, slot)| {
            let Slot::Shared(shared) = slot else {
                return None;
            };
            let bytes = bytes_of(at, chunks);
            n_found += usize::from(bytes.is_some());
            shared.job(bytes)
        });
        run(level, jobs, |owner, state| *owner = state);
        assert_eq!(n_found, chunks.len(), "each open stream is named once");
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if let Slot::Shared(shared) = slot {
                shared.settle(bytes_of(at, chunks));
            }
        }
    }
}

/// What comes next in a stream.
fn bytes_of<'a>(slot: usize, chunks: &[(&Lane, &'a [u8])]) -> Option<&'a [u8]> {
    let chunk = chunks.iter().find(|(lane, _)| lane.0 == slot);
    chunk.map(|(_, bytes)| *bytes)
}

impl Shared {
    /// A stream of which nothing has passed yet.
    const fn new() -> Self {
        Self {
            state: INITIAL,
            n_bytes: 0,
            waiting: Vec::new(),
            ended: false,
        }
    }

    /// So many bytes more have come.
    fn count(&mut self, bytes: &[u8]) {
        assert!(!self.ended, "a stream that has ended gets no more bytes");
        self.n_bytes += bytes.len() as u64;
    }

    /// No bytes come any more.
    fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            let (blocks, n_blocks) = padded(&self.waiting, self.n_bytes);
            let last = blocks[..n_blocks].as_flattened();
            self.waiting.clear();
            self.waiting.extend_from_slice(last);
        }
    }

    /// The blocks that wait, the last made whole by the first of `bytes`, and those of `bytes`. [`settle`](Self::settle) has to follow.
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

    /// All whole blocks have been hashed. What is left of a block waits.
    fn settle(&mut self, bytes: Option<&[u8]>) {
        let (blocks, rest) = self.waiting.as_chunks::<BLOCK>();
        if rest.is_empty() {
            // The waiting bytes have become whole blocks. What is left, if anything, are the last of the new ones.
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
