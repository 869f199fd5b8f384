//! The streams of a hashing thread.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender};

use super::{Message, Reply, lanes};
use crate::common::digest::{Algorithm, Backend, MultiStream, StreamId};

/// Streams that are hashed together, a block of each at a time.
///
/// A stream that has more blocks than others waits for their next blocks, so that all lanes are
/// busy.
#[derive(Debug)]
pub(super) struct Streams {
    lanes: MultiStream,
    /// The number of streams that fill all lanes.
    most: usize,
    open: Vec<Open>,
}

/// A stream.
#[derive(Debug)]
struct Open {
    id: usize,
    lane: StreamId,
    reply: Sender<Reply>,
    /// Blocks that have not been hashed, and requests between them.
    waiting: VecDeque<Waiting>,
    /// Whether no more blocks come.
    has_ended: bool,
}

/// A message that waits for a hashing thread.
#[derive(Debug)]
enum Waiting {
    Block(Vec<u8>),
    /// The digest of all blocks before is wanted.
    DigestSoFar,
}

impl Open {
    /// Whether there is a block to hash, or the digest is due.
    fn is_ready(&self) -> bool {
        self.has_ended || !self.waiting.is_empty()
    }
}

impl Streams {
    /// No streams.
    pub(super) fn new(algorithm: Algorithm, backend: Backend) -> Self {
        Self {
            lanes: MultiStream::by(algorithm, backend),
            most: lanes(algorithm, backend),
            open: Vec::new(),
        }
    }

    /// Handles messages until all senders have gone.
    pub(super) fn serve(mut self, messages: &Receiver<Message>) {
        loop {
            let n_ready = self.open.iter().filter(|open| open.is_ready()).count();
            let message = if n_ready == 0 {
                let Ok(message) = messages.recv() else {
                    return;
                };
                Some(message)
            } else if n_ready < self.open.len().min(self.most) {
                messages.try_recv().ok()
            } else {
                None
            };
            match message {
                Some(message) => self.take(message),
                None => self.hash(),
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Open(id, reply) => self.open.push(Open {
                id,
                lane: self.lanes.open(),
                reply,
                waiting: VecDeque::new(),
                has_ended: false,
            }),
            Message::Bytes(id, bytes) => {
                if let Some(at) = self.find(id) {
                    self.open[at].waiting.push_back(Waiting::Block(bytes));
                }
            }
            Message::DigestSoFar(id) => {
                if let Some(at) = self.find(id) {
                    self.open[at].waiting.push_back(Waiting::DigestSoFar);
                }
            }
            Message::End(id) => {
                if let Some(at) = self.find(id) {
                    self.open[at].has_ended = true;
                }
            }
            Message::Abandon(id) => {
                if let Some(at) = self.find(id) {
                    self.lanes.abandon(self.open.swap_remove(at).lane);
                }
            }
        }
    }

    /// Returns the index of the open stream of this client. Its earlier streams have ended.
    fn find(&self, id: usize) -> Option<usize> {
        let is_it = |open: &Open| open.id == id && !open.has_ended;
        self.open.iter().position(is_it)
    }

    /// Hashes a block of each stream, and sends the digests of streams that are complete.
    fn hash(&mut self) {
        for open in &mut self.open {
            while let Some(Waiting::DigestSoFar) = open.waiting.front() {
                open.waiting.pop_front();
                let digest = self.lanes.digest_so_far(&open.lane);
                let _ = open.reply.send(Reply::DigestSoFar(digest));
            }
        }
        let is_over = |open: &mut Open| open.has_ended && open.waiting.is_empty();
        let over: Vec<_> = self.open.extract_if(.., is_over).collect();
        for open in &over {
            // Their last blocks are hashed with the others'.
            self.lanes.end(&open.lane);
        }
        let next = self.open.iter().filter_map(|open| {
            let Waiting::Block(block) = open.waiting.front()? else {
                return None;
            };
            Some((&open.lane, block.as_slice()))
        });
        self.lanes.push_together(&next.collect::<Vec<_>>());
        // A client that has abandoned its stream needs no replies.
        for open in &mut self.open {
            if let Some(Waiting::Block(block)) = open.waiting.pop_front() {
                let _ = open.reply.send(Reply::Buffer(block));
            }
        }
        for Open { lane, reply, .. } in over {
            let _ = reply.send(Reply::Digest(self.lanes.finish(lane)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{channel, sync_channel};

    use super::*;
    use crate::common::digest::{Digest, digests};

    /// The replies to these blocks of `n_streams` streams, which begin before and end after all
    /// blocks.
    fn told(backend: Backend, blocks: &[(usize, Vec<u8>)], n_streams: usize) -> Vec<Reply> {
        let (inbox, messages) = sync_channel(100);
        let (reply, replies) = channel();
        for id in 0..n_streams {
            inbox.send(Message::Open(id, reply.clone())).unwrap();
        }
        for (id, block) in blocks {
            inbox.send(Message::Bytes(*id, block.clone())).unwrap();
        }
        for id in 0..n_streams {
            inbox.send(Message::End(id)).unwrap();
        }
        drop((inbox, reply));
        Streams::new(Algorithm::Sha256, backend).serve(&messages);
        replies.iter().collect()
    }

    fn digest(bytes: &[u8]) -> Digest {
        digests(Algorithm::Sha256, &[bytes])[0]
    }

    #[test]
    fn each_block_comes_back_and_each_stream_has_its_digest() {
        let block = |id: usize, at: usize| (id, vec![(7 * id + at) as u8; 100 * id + at]);
        let blocks = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 5), (2, 6)].map(|(id, at)| block(id, at));
        for backend in Backend::all() {
            let (mut buffers, mut found) = (Vec::new(), Vec::new());
            for reply in told(backend, &blocks, 4) {
                match reply {
                    Reply::Buffer(buffer) => buffers.push(buffer),
                    Reply::Digest(digest) => found.push(digest),
                    Reply::DigestSoFar(_) => panic!("none was asked for"),
                }
            }
            buffers.sort();
            let mut expected: Vec<_> = blocks.iter().map(|(_, block)| block.clone()).collect();
            expected.sort();
            assert_eq!(buffers, expected, "{backend}");
            let mut expected: Vec<_> = (0..4)
                .map(|id| {
                    let of_stream = blocks.iter().filter(|(of, _)| *of == id);
                    let bytes: Vec<_> = of_stream.flat_map(|(_, block)| block.clone()).collect();
                    digest(&bytes)
                })
                .collect();
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{backend}");
        }
    }

    /// A stream with more blocks waits until every other stream has one or has ended.
    #[test]
    fn streams_are_hashed_in_step() {
        let blocks = [(0, 10), (0, 11), (0, 12), (1, 20)].map(|(id, byte)| (id, vec![byte; 1000]));
        let order = told(Backend::in_lanes(), &blocks, 2)
            .into_iter()
            .map(|reply| match reply {
                Reply::Buffer(buffer) => buffer[0],
                Reply::Digest(found) if found == digest(&[20; 1000]) => 2,
                Reply::Digest(_) | Reply::DigestSoFar(_) => 1,
            });
        assert_eq!(order.collect::<Vec<_>>(), [10, 20, 11, 2, 12, 1]);
    }

    #[test]
    fn nothing_comes_of_a_stream_that_is_given_up() {
        let mut streams = Streams::new(Algorithm::Sha256, Backend::in_lanes());
        let (reply, replies) = channel();
        streams.take(Message::Open(0, reply));
        streams.take(Message::Bytes(0, vec![1; 1000]));
        streams.take(Message::Abandon(0));
        streams.hash();
        assert!(streams.open.is_empty());
        assert!(replies.try_recv().is_err());
    }
}
