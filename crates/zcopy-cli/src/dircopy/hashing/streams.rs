//! The streams of a hashing thread.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender};

use super::{Message, Reply, lanes};
use crate::digest::{Algorithm, Lane, Lanes, Way};

/// Streams that are hashed together, a block of each at a time.
///
/// Whoever has brought more than others waits for them, so that all lanes are busy for as long, but not for those that bring nothing.
#[derive(Debug)]
pub(super) struct Streams {
    lanes: Lanes,
    /// How many keep all lanes busy.
    most: usize,
    open: Vec<Open>,
}

/// A stream.
#[derive(Debug)]
struct Open {
    id: usize,
    lane: Lane,
    reply: SyncSender<Reply>,
    /// Blocks that have not been hashed.
    waiting: VecDeque<Vec<u8>>,
    /// No more will come.
    has_ended: bool,
}

impl Open {
    /// Whether something can be done about it.
    fn is_ready(&self) -> bool {
        self.has_ended || !self.waiting.is_empty()
    }
}

impl Streams {
    /// None yet.
    pub(super) fn new(algorithm: Algorithm, way: Way) -> Self {
        Self {
            lanes: Lanes::by(algorithm, way),
            most: lanes(algorithm, way),
            open: Vec::new(),
        }
    }

    /// Does what it is told, until nobody can tell it anything.
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
                    self.open[at].waiting.push_back(bytes);
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

    /// Where the stream is that this tap has under way. Those before it have ended.
    fn find(&self, id: usize) -> Option<usize> {
        let is_it = |open: &Open| open.id == id && !open.has_ended;
        self.open.iter().position(is_it)
    }

    /// Hashes a block of each stream, and gives out the digests of those that are over.
    fn hash(&mut self) {
        let is_over = |open: &mut Open| open.has_ended && open.waiting.is_empty();
        let over: Vec<_> = self.open.extract_if(.., is_over).collect();
        for open in &over {
            // Their last blocks are hashed with the others'.
            self.lanes.end(&open.lane);
        }
        let next = self.open.iter().filter_map(|open| {
            let block = open.waiting.front()?;
            Some((&open.lane, block.as_slice()))
        });
        self.lanes.push_together(&next.collect::<Vec<_>>());
        // Whoever has given up needs neither buffers nor digests.
        for open in &mut self.open {
            if let Some(block) = open.waiting.pop_front() {
                let _ = open.reply.try_send(Reply::Buffer(block));
            }
        }
        for Open { lane, reply, .. } in over {
            let _ = reply.try_send(Reply::Digest(self.lanes.finish(lane)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::digest::digests;

    /// What a thread is told of the streams with these blocks: of all that they begin, then each block, then that they end.
    fn told(blocks: &[(usize, Vec<u8>)], n_streams: usize) -> Vec<Vec<Reply>> {
        let (inbox, messages) = sync_channel(100);
        let replies = (0..n_streams).map(|id| {
            let (reply, replies) = sync_channel(100);
            inbox.send(Message::Open(id, reply)).unwrap();
            replies
        });
        let replies: Vec<_> = replies.collect();
        for (id, block) in blocks {
            inbox.send(Message::Bytes(*id, block.clone())).unwrap();
        }
        for id in 0..n_streams {
            inbox.send(Message::End(id)).unwrap();
        }
        drop(inbox);
        Streams::new(Algorithm::Sha256, Way::in_lanes()).serve(&messages);
        replies
            .iter()
            .map(|replies| replies.iter().collect())
            .collect()
    }

    #[test]
    fn each_stream_gets_its_buffers_back_and_then_its_digest() {
        let block = |id: usize, at: usize| (id, vec![(7 * id + at) as u8; 100 * id + at]);
        let blocks = [
            block(0, 1),
            block(0, 2),
            block(0, 3),
            block(1, 4),
            block(2, 5),
            block(2, 6),
        ];
        for (id, replies) in told(&blocks, 4).into_iter().enumerate() {
            let of_stream = blocks.iter().filter(|(of, _)| *of == id);
            let of_stream: Vec<_> = of_stream.map(|(_, block)| block.clone()).collect();
            let (last, buffers) = replies.split_last().unwrap();
            let returned = buffers.iter().map(|reply| match reply {
                Reply::Buffer(buffer) => buffer.clone(),
                Reply::Digest(_) => panic!("a digest is the last"),
            });
            assert_eq!(returned.collect::<Vec<_>>(), of_stream);
            let expected = digests(Algorithm::Sha256, &[&of_stream.concat()])[0];
            assert!(
                matches!(last, Reply::Digest(digest) if *digest == expected),
                "{id}"
            );
        }
    }

    /// Whoever has brought more waits, until all have brought something.
    #[test]
    fn streams_are_hashed_in_step() {
        let mut streams = Streams::new(Algorithm::Sha256, Way::in_lanes());
        let (ahead, replies_ahead) = sync_channel(100);
        let (behind, _replies_behind) = sync_channel(100);
        streams.take(Message::Open(0, ahead));
        streams.take(Message::Open(1, behind));
        for _ in 0..3 {
            streams.take(Message::Bytes(0, vec![1; 1000]));
        }
        streams.take(Message::Bytes(1, vec![2; 1000]));
        streams.hash();
        assert_eq!(replies_ahead.try_iter().count(), 1);
        let waiting = streams.open.iter().map(|open| open.waiting.len());
        assert_eq!(waiting.collect::<Vec<_>>(), [2, 0]);
    }

    #[test]
    fn nothing_comes_of_a_stream_that_is_given_up() {
        let mut streams = Streams::new(Algorithm::Sha256, Way::in_lanes());
        let (reply, replies) = sync_channel(100);
        streams.take(Message::Open(0, reply));
        streams.take(Message::Bytes(0, vec![1; 1000]));
        streams.take(Message::Abandon(0));
        streams.hash();
        assert!(streams.open.is_empty());
        assert!(replies.try_recv().is_err());
    }
}
