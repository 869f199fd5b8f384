//! A thread that hashes one file at a time while another one reads it.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::Scope;

use crate::common::threads;
use crate::dircopy::manifest::checksum::{Checksum, ChecksumAlgorithm, Hasher};

/// The reader's end of the thread. The thread exits when this is dropped.
#[derive(Debug)]
pub(super) struct HashThread {
    messages: SyncSender<Message>,
    replies: Receiver<Reply>,
    /// Buffers that can be filled again.
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
enum Message {
    Begin(ChecksumAlgorithm),
    Block(Vec<u8>),
    End,
}

#[derive(Debug)]
enum Reply {
    Buffer(Vec<u8>),
    Checksum(Checksum),
}

impl HashThread {
    /// Starts the thread. The reader waits while `queue_size` blocks are queued. `None` if no
    /// thread can be started.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        queue_size: usize,
    ) -> Option<Self> {
        let (messages, inbox) = sync_channel(queue_size);
        let (outbox, replies) = channel();
        let hash = move || serve(&inbox, &outbox);
        threads::spawn_scoped(scope, hash).ok()?;
        Some(Self {
            messages,
            replies,
            spare: Vec::new(),
        })
    }

    /// Begins another file. The blocks of a file that was not [finished](Self::finish) are
    /// forgotten.
    pub(super) fn begin(&mut self, algorithm: ChecksumAlgorithm) {
        // If the thread has exited, `finish` says so.
        let _ = self.messages.send(Message::Begin(algorithm));
    }

    /// Queues the next block. Waits while the queue is full.
    pub(super) fn push(&mut self, block: &[u8]) {
        while let Ok(Reply::Buffer(buffer)) = self.replies.try_recv() {
            self.spare.push(buffer);
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.extend_from_slice(block);
        let _ = self.messages.send(Message::Block(buffer));
    }

    /// Waits for the checksum of all blocks. `None` if the thread has exited.
    pub(super) fn finish(&mut self) -> Option<Checksum> {
        self.messages.send(Message::End).ok()?;
        loop {
            match self.replies.recv().ok()? {
                Reply::Buffer(buffer) => self.spare.push(buffer),
                Reply::Checksum(checksum) => return Some(checksum),
            }
        }
    }
}

fn serve(inbox: &Receiver<Message>, outbox: &Sender<Reply>) {
    let mut hasher = None;
    for message in inbox {
        let reply = match message {
            Message::Begin(algorithm) => {
                hasher = Some(Hasher::new(algorithm));
                continue;
            }
            Message::Block(mut buffer) => {
                if let Some(hasher) = &mut hasher {
                    hasher.update(&buffer);
                }
                buffer.clear();
                Reply::Buffer(buffer)
            }
            Message::End => match hasher.take() {
                Some(hasher) => Reply::Checksum(hasher.finish()),
                None => continue,
            },
        };
        if outbox.send(reply).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn files_follow_one_another_and_one_that_was_not_finished_leaves_nothing() {
        let checksum = |bytes: &[u8]| {
            let mut hasher = Hasher::new(ChecksumAlgorithm::Sha1);
            hasher.update(bytes);
            Some(hasher.finish())
        };
        thread::scope(|scope| {
            let mut thread = HashThread::start(scope, 1).unwrap();
            thread.begin(ChecksumAlgorithm::Sha1);
            for _ in 0..100 {
                thread.push(b"abc");
            }
            assert_eq!(thread.finish(), checksum(&b"abc".repeat(100)));
            thread.begin(ChecksumAlgorithm::Md5);
            thread.push(b"abandoned");
            thread.begin(ChecksumAlgorithm::Sha1);
            thread.push(b"x");
            assert_eq!(thread.finish(), checksum(b"x"));
            thread.begin(ChecksumAlgorithm::Sha1);
            assert_eq!(thread.finish(), checksum(b""));
        });
    }

    #[test]
    fn buffers_come_back_so_that_a_queue_holds_a_few() {
        thread::scope(|scope| {
            let mut thread = HashThread::start(scope, 2).unwrap();
            thread.begin(ChecksumAlgorithm::Xxh128);
            for _ in 0..1000 {
                thread.push(&[7; 4096]);
            }
            assert!(thread.finish().is_some());
            // Two wait, one is being hashed, one is being filled.
            assert!(thread.spare.len() <= 4, "{}", thread.spare.len());
        });
    }
}
