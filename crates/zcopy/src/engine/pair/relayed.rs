//! The private pipe of one direction of a relay, which holds one only while bytes come in bulk.

use super::{PairEngine, Phase};
use crate::buffer::Buffer;
use crate::pipe;
use crate::strategy::Strategy;
use crate::sys::Kernel;

/// Steps of fewer bytes go by read and write, which need no pipe. `haproxy` splices from this
/// length on, too.
const SPLICE_ABOVE: u64 = 4 << 10;

/// After this many bytes in bulk, a larger pipe is worth its memory.
const ENLARGE_AFTER: u64 = 1 << 20;

impl<K: Kernel> PairEngine<'_, K> {
    /// Chooses how the next bytes move, after a step that moved `n` bytes.
    pub(super) fn adapt_pipe(&mut self, n: u64) {
        if self.phase != Phase::Main || self.state.in_flight() > 0 {
            return;
        }
        if n < SPLICE_ABOVE {
            self.warm_up();
        } else if self.context.bytes - self.rested_at >= ENLARGE_AFTER
            && let Some(pipe) = &mut self.state.pipe
        {
            // Once: a pipe that the user's budget keeps small is not tried again.
            if self.state.private_pipe_size < pipe::WANTED {
                self.state.private_pipe_size = pipe::WANTED;
                pipe.enlarge(&self.context.kernel, pipe::WANTED);
            }
        }
    }

    /// Closes the private pipe and frees the buffer, if no byte is in flight. A strategy that was
    /// refused is tried again with the next bytes in bulk: the user's budget may have changed.
    pub(super) fn give_back_pipe(&mut self) {
        if self.state.in_flight() > 0 {
            return;
        }
        let size = self.state.buffer.max_capacity();
        self.state.buffer = Buffer::with_max_capacity(size);
        self.state.pipe = None;
        self.state.private_pipe_size = size;
        self.rested_at = self.context.bytes;
        self.main_strategy = self.plan.strategy();
        self.warm_up();
    }

    fn warm_up(&mut self) {
        if self.plan.warm_up().is_some() {
            self.phase = Phase::WarmUp(Strategy::Buffered);
        }
    }
}
