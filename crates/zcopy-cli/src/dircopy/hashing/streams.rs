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
