//! What the pair engine waits for: endpoints, the rate limit, and the rate of records.

use super::{PairEngine, Phase};
use crate::call_error::{CallError, Cause};
use crate::engine::Flow;
use crate::error::RunError;
use crate::fd_info::{FdInfo, Kind};
use crate::side::Side;
use crate::sys::{Blocking, Errno, Kernel};
use crate::wait::Wait;

impl<K: Kernel> PairEngine<'_, K> {
    /// Returns how many bytes the coming step may move. The rate limit has already allowed bytes in
    /// flight; these wait for the rate of their records.
    ///
    /// # Errors
    ///
    /// Returns what to wait for if none may be moved yet.
    pub(super) fn allowance(&mut self, until_limit: u64) -> Result<u64, Wait> {
        if self.state.needs_input() {
            let in_flight = self.state.in_flight();
            let wanted = until_limit.min(self.context.max_step);
            let source = &mut self.state.source;
            return self.context.take_tokens(source, wanted, in_flight);
        }
        let waiting = self.state.buffer.pending();
        let waiting = &waiting[..until_limit.min(waiting.len() as u64) as usize];
        let pause = self.state.records.pause(&self.context.kernel, waiting);
        pause.map_or(Ok(until_limit), |time| Err(Wait::Time(time)))
    }

    /// If calls may not sleep, returns a wait for the endpoints that the coming step needs.
    /// Otherwise a descriptor in blocking mode blocks in the call itself, which saves a `poll`.
    pub(super) fn wait_before_step(&mut self) -> Option<Wait> {
        if self.context.blocking() == Blocking::MaySleep {
            return None;
        }
        let strategy = self.current_strategy();
        if self.is_at_known_end(strategy) {
            return None;
        }
        let (source, sink) = (&self.state.source, &self.state.sink.info);
        // The call itself tells a session whether a descriptor in non-blocking mode is ready.
        let stepped = self.context.options.stepped;
        let needs_poll = |info: &FdInfo| !(stepped && info.nonblocking);
        let needs_input = self.state.needs_input();
        // `SPLICE_F_NONBLOCK` covers pipes, and with a private pipe `EAGAIN` says which side it is.
        let can_be_nonblocking =
            |info: &FdInfo| strategy.facts().has_private_pipe && info.kind == Kind::Pipe;
        let needs_source = needs_input
            && source.info.can_starve()
            && !can_be_nonblocking(&source.info)
            && !source.may_lack_writer();
        let needs_source = needs_source && needs_poll(&source.info);
        let needs_sink = sink.can_block()
            && needs_poll(sink)
            && !(needs_input && strategy.fills_first())
            && !can_be_nonblocking(sink);
        if needs_source {
            self.context
                .await_ready(Side::Source, &mut self.state.source);
        }
        if needs_sink {
            self.context.await_ready(Side::Sink, &mut self.state.sink);
        }
        let must_wait = !self.context.awaited.is_empty();
        must_wait.then(Wait::before_call)
    }

    /// Returns the wait for the side that blocked a step, or for both if it is not known, unless
    /// another strategy or a read comes first.
    pub(super) fn blocked(&mut self, side: Option<Side>) -> Result<Flow, RunError> {
        self.check_time_out(side)?;
        let delay = self.context.count_blocked();
        if self.context.times_blocked > 1 && side != Some(Side::Sink) && self.may_be_at_mark() {
            self.phase = Phase::Confirming;
            return Ok(Flow::Advance);
        }
        let strategy = self.current_strategy();
        let is_last = strategy.facts().is_last_resort || self.context.requested().is_some();
        if self.context.has_blocked_too_often() && !is_last {
            return self.fall_back(strategy, Cause::Errno(Errno::AGAIN));
        }
        if side != Some(Side::Sink) {
            self.context
                .await_ready(Side::Source, &mut self.state.source);
        }
        if side != Some(Side::Source) {
            self.context.await_ready(Side::Sink, &mut self.state.sink);
        }
        Ok(Flow::Wait(Wait::after_blocked(delay)))
    }

    /// Fails if a socket's own time-out expired inside the call.
    fn check_time_out(&mut self, side: Option<Side>) -> Result<(), CallError> {
        let (source, sink) = (&mut self.state.source, &mut self.state.sink);
        if side != Some(Side::Sink)
            && let Err(error) = self.context.check_time_out(Side::Source, source)
            && (side == Some(Side::Source) || sink.is_blocking(&self.context.kernel))
        {
            return Err(error);
        }
        // A splice without a private pipe also fails with `EAGAIN` because of its pipe, if that is
        // in non-blocking mode. So only a pipe in blocking mode proves that the time-out has
        // expired.
        if side != Some(Side::Source)
            && let Err(error) = self.context.check_time_out(Side::Sink, sink)
            && (side == Some(Side::Sink) || source.is_blocking(&self.context.kernel))
        {
            return Err(error);
        }
        Ok(())
    }
}
