//! Which strategy serves each sink, and when that changes.

use super::FanOutEngine;
use super::backlog::Storage;
use super::sink_state::SinkState;
use crate::call_error::Cause;
use crate::context::requested_failed;
use crate::engine::Flow;
use crate::error::RunError;
use crate::fd_info::Kind;
use crate::plan;
use crate::strategy::Strategy;
use crate::sys::Kernel;

impl<K: Kernel> FanOutEngine<'_, K> {
    /// Returns the last live sink that this strategy serves.
    pub(super) fn last_served_by(&self, strategy: Strategy) -> Option<usize> {
        let last = self
            .live()
            .rev()
            .find(|(_, sink)| sink.served_by == strategy);
        last.map(|(index, _)| index)
    }

    /// Returns whether all sinks are written to from the buffer, or none is left.
    fn are_all_buffered(&self) -> bool {
        self.live()
            .all(|(_, sink)| sink.usually_served_by() == Strategy::Buffered)
    }

    /// Returns whether a short round is written to all sinks. A strategy that the caller requested
    /// is kept. Out of other sources only the last round is short.
    pub(super) fn may_write_to_all(&self) -> bool {
        self.context.options.strategy.is_none()
            && self.backlog.storage == Storage::Pipe
            && matches!(
                self.backlog.state.source.info.kind,
                Kind::Pipe | Kind::Stream
            )
    }

    /// Decides whether the next round is read, and written to all sinks: each after a short one. All
    /// sinks have the bytes of the last.
    pub(super) fn begin_sharing_or_writing(&mut self) {
        self.sinks.iter_mut().for_each(SinkState::end_round);
        let came_at_once = self.last_round_len();
        if came_at_once > 0 {
            self.writes_to_all = came_at_once <= super::SHORT_ROUND && self.may_write_to_all();
        }
    }

    /// Writes this round to all sinks if it is short. Its bytes are in the backlog's pipe.
    pub(super) fn write_if_short(&mut self) {
        let is_short = self.backlog.state.in_pipe() <= super::SHORT_ROUND;
        self.writes_to_all = is_short && self.may_write_to_all();
        self.write_to_all();
    }

    /// Serves all sinks by writes, if this round is written to all.
    pub(super) fn write_to_all(&mut self) {
        if self.writes_to_all {
            self.sinks.iter_mut().for_each(SinkState::write_this_round);
        }
    }

    /// Returns the length of the last round, between two rounds.
    fn last_round_len(&self) -> u64 {
        self.backlog.head_position - self.round_start
    }

    /// Returns the consuming sink, which splices the bytes out of the backlog when all others have
    /// them, if one has been chosen.
    pub(super) fn consuming_sink(&self) -> Option<usize> {
        self.last_served_by(Strategy::Splice)
    }

    /// Chooses the consuming sink: one that is not a pipe, if there is one, so that `tee` serves
    /// the pipes, which need no private pipe. If some sinks are written to, none is chosen, and a
    /// read into the buffer takes the bytes out of the backlog.
    pub(super) fn choose_consuming_sink(&mut self) {
        if self.backlog.storage == Storage::Buffer {
            return;
        }
        if self.are_all_buffered() && self.context.options.strategy != Some(Strategy::Tee) {
            // Nothing is duplicated any more, and the backlog is empty.
            self.backlog.storage = Storage::Buffer;
            self.backlog.state.pipe = None;
            return;
        }
        let has_buffered_sink = self.last_served_by(Strategy::Buffered).is_some();
        match self.consuming_sink() {
            Some(index) if has_buffered_sink => self.sinks[index].use_tee(),
            None if !has_buffered_sink => {
                let spliced = self.last_served_by(Strategy::SplicePipe);
                if let Some(index) = spliced.or_else(|| self.last_served_by(Strategy::Tee)) {
                    self.sinks[index].served_by = Strategy::Splice;
                }
            }
            _ => {}
        }
    }

    /// Gives the only pipe among the sinks a private pipe of its own, once bytes come out of a pipe
    /// in bulk: the next bytes wait there while its reader reads these.
    ///
    /// On an idle machine this nearly doubles the throughput of three processes. It gains nothing
    /// with two pipes among the sinks, whose readers take turns anyway, or where bytes are copied.
    pub(super) fn give_lone_reader_a_pipe(&mut self) {
        let is_bulk = self.backlog.head_position >= plan::WARM_UP
            && self.last_round_len() >= plan::OFFLOAD_ABOVE;
        if !self.may_add_pipe || self.backlog.storage == Storage::Buffer || !is_bulk {
            return;
        }
        self.may_add_pipe = false;
        let readers = || {
            self.live()
                .filter(|(_, sink)| sink.state.sink.info.kind == Kind::Pipe)
        };
        let first = readers().next().map(|(index, _)| index);
        if let Some(lone) = first
            && readers().count() == 1
            && self.last_served_by(Strategy::Buffered).is_none()
            && self.sinks[lone].served_by == Strategy::Tee
        {
            self.sinks[lone].served_by = Strategy::SplicePipe;
        }
    }

    /// Falls back to read and write for all sinks. All pipes are empty; the buffer may hold bytes.
    pub(super) fn give_up_tee(&mut self, cause: Option<Cause>) -> Result<Flow, RunError> {
        if let Some(cause) = cause {
            self.context.attempt(Strategy::Tee).cause = Some(cause);
            if self.context.options.strategy == Some(Strategy::Tee) {
                return Err(requested_failed(Strategy::Tee, cause));
            }
        }
        self.backlog.storage = Storage::Buffer;
        self.backlog.state.pipe = None;
        for sink in self.sinks.iter_mut().filter(|sink| sink.is_live()) {
            sink.write_always();
        }
        Ok(Flow::Observe)
    }

    /// Falls back to writes from the buffer for one sink, because it refuses to splice. It has
    /// accepted all bytes that it was given.
    pub(super) fn serve_by_writing(&mut self, index: usize, cause: Cause) -> Result<(), RunError> {
        if self.context.options.strategy == Some(Strategy::Tee) {
            return Err(requested_failed(Strategy::Tee, cause));
        }
        // From now on a read into the buffer empties the backlog.
        for sink in self.sinks.iter_mut().filter(|sink| sink.is_live()) {
            if sink.served_by == Strategy::Splice {
                sink.use_tee();
            }
        }
        self.sinks[index].write_always();
        if self.are_all_buffered() {
            let attempt = self.context.attempt(Strategy::Tee);
            attempt.cause.get_or_insert(cause);
        }
        Ok(())
    }
}
