//! The private pipe of one direction of a relay, which holds one only while bytes come in bulk, and
//! its buffer, which it shares with the other relays of the thread.

use std::cell::Cell;

use super::{PairEngine, Phase};
use crate::buffer::Buffer;
use crate::pipe;
use crate::strategy::Strategy;
use crate::sys::Kernel;

/// After two steps of fewer bytes the next ones go by read and write, which need no pipe. `haproxy`
/// splices from this length on, too. A single short step is no sign of messages: a splice often
/// ends a few bytes before the end of a segment.
const SPLICE_ABOVE: u64 = 4 << 10;

/// After this many bytes in bulk, a larger pipe is worth its memory.
const ENLARGE_AFTER: u64 = 1 << 20;

thread_local! {
    /// The memory that the next step of any relay in this thread uses. A thousand relays that have
    /// no bytes in flight need no more.
    static SPARE: Cell<Option<Buffer>> = const { Cell::new(None) };
}

impl<K: Kernel> PairEngine<'_, K> {
    /// Gives the buffer memory for one step, if it has none and the thread has some.
    pub(super) fn borrow_memory(&mut self) {
        let buffer = &mut self.state.buffer;
        if buffer.has_memory() {
            return;
        }
        // While the thread ends, the memory is gone.
        if let Ok(Some(spare)) = SPARE.try_with(Cell::take)
            && let Some(too_large) = buffer.put_memory(spare)
        {
            let _ = SPARE.try_with(|it| it.set(Some(too_large)));
        }
    }

    /// Returns the memory of the buffer to the thread, if no byte is in flight.
    pub(super) fn return_memory(&mut self) {
        if self.state.in_flight() == 0
            && let Some(spare) = self.state.buffer.take_memory()
        {
            let _ = SPARE.try_with(|it| it.set(Some(spare)));
        }
    }

    /// Frees the memory of the thread. The other relays of the thread allocate new memory if they
    /// need it.
    pub(super) fn free_memory() {
        let _ = SPARE.try_with(Cell::take);
    }

    /// Chooses how the next bytes move, after a step that moved `n` bytes.
    pub(super) fn adapt_pipe(&mut self, n: u64) {
        if self.phase != Phase::Main || self.state.in_flight() > 0 {
            return;
        }
        let is_short = n < SPLICE_ABOVE;
        let was_short = std::mem::replace(&mut self.last_was_short, is_short);
        if is_short && was_short {
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
        Self::free_memory();
        self.state.pipe = None;
        self.state.private_pipe_size = self.state.buffer.max_capacity();
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
