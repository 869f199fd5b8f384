//! One step of a round: bytes are duplicated, delivered, and taken out of the backlog.

use std::ops::ControlFlow;

use super::FanOutEngine;
use super::backlog::{self, Storage};
use super::sink_state::SinkState;
use crate::call_error::{CallError, Cause};
use crate::context::{refused, timed_out};
use crate::engine::Flow;
use crate::error::RunError;
use crate::fd_info::Kind;
use crate::report::Ended;
use crate::side::Side;
use crate::step::Step;
use crate::strategy::Strategy;
use crate::sys::{Blocking, Kernel};

/// When to call again for a sink that was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// At once: another call serves it now, or a signal came.
    AtOnce,
    /// When bytes move or an endpoint becomes ready.
    WhenReady,
}

impl Retry {
    fn or(self, other: Self) -> Self {
        match self {
            Self::AtOnce => Self::AtOnce,
            Self::WhenReady => other,
        }
    }
}

impl<K: Kernel> FanOutEngine<'_, K> {
    /// Chooses the sink that splices the bytes out of the backlog when all others have them: the
    /// last one that is not a pipe, so that `tee` serves the pipes, which need no private pipe. No
    /// sink does if some are written to: then a read into the buffer takes the bytes out.
    pub(super) fn choose_consumer(&mut self) {
        if self.backlog.storage == Storage::Buffer {
            return;
        }
        let live = || {
            self.sinks
                .iter()
                .enumerate()
                .filter(|(_, sink)| sink.is_live())
        };
        let some_are_buffered = live().any(|(_, sink)| sink.served_by == Strategy::Buffered);
        let some_are_spliced = live().any(|(_, sink)| sink.served_by != Strategy::Buffered);
        if !some_are_spliced && self.context.options.strategy != Some(Strategy::Tee) {
            // Nothing is duplicated any more, and the backlog is empty.
            self.backlog.storage = Storage::Buffer;
            self.backlog.state.pipe = None;
            return;
        }
        let last = |by| {
            live()
                .rev()
                .find(|(_, sink)| sink.served_by == by)
                .map(|(i, _)| i)
        };
        let current = last(Strategy::Splice);
        match current {
            Some(index) if some_are_buffered => self.sinks[index].use_tee(),
            Some(_) => {}
            None if some_are_buffered => {}
            None => {
                let last = last(Strategy::SplicePipe).or_else(|| last(Strategy::Tee));
                if let Some(index) = last {
                    self.sinks[index].served_by = Strategy::Splice;
                }
            }
        }
    }

    /// Fills an empty backlog, then makes one call for every sink.
    pub(super) fn serve(&mut self) -> Result<Flow, RunError> {
        let blocking = self.context.blocking();
        for sink in &mut self.sinks {
            sink.blocked = false;
        }
        if self.backlog.storage == Storage::Pipe && self.all_caught_up() {
            let max = self.round_limit - self.backlog.head;
            match self.backlog.fill_pipe(&self.context.kernel, max, blocking) {
                Ok(None) => {
                    self.round_end = Some(self.backlog.consumed());
                    self.context.spurious_wakeups = 0;
                }
                Ok(Some(step)) => return self.not_filled(step),
                Err(error) if self.may_read_instead(&error) => {
                    return self.give_up_tee(Some(error.cause));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let before = self.positions();
        let mut retry = Retry::WhenReady;
        for index in 0..self.sinks.len() {
            retry = retry.or(self.tee(index, blocking)?);
            retry = retry.or(self.drain(index, blocking)?);
        }
        retry = match self.consume_backlog(blocking)? {
            ControlFlow::Continue(taken) => retry.or(taken),
            ControlFlow::Break(flow) => return Ok(flow),
        };
        let has_moved = self.positions() != before;
        if has_moved {
            self.context.spurious_wakeups = 0;
        }
        if has_moved || retry == Retry::AtOnce {
            return Ok(Flow::Continue);
        }
        Ok(Flow::Wait(self.wait_for_blocked()))
    }

    /// Returns the sums of all positions that a step can move.
    fn positions(&self) -> (u64, u64, u64) {
        let taken = self.sinks.iter().map(|sink| sink.taken).sum();
        let delivered = self.sinks.iter().map(|sink| sink.delivered).sum();
        (self.backlog.head, taken, delivered)
    }

    /// Decides what to do when a splice from the source moved nothing.
    fn not_filled(&mut self, step: Step) -> Result<Flow, RunError> {
        let source = self.backlog.state.source.info;
        match step {
            Step::Eof if source.kind == Kind::Pipe => Ok(Flow::Ended(Ended::Eof)),
            Step::Eof if source.kind == Kind::Stream => self.read_past_mark(),
            // The socket polled as readable, and the splice failed with `EAGAIN` all the same.
            Step::Blocked(_)
                if source.kind == Kind::Stream && self.context.spurious_wakeups > 0 =>
            {
                self.read_past_mark()
            }
            Step::Eof => self.confirm_end(),
            Step::Unsupported(cause) => self.give_up_tee(Some(cause)),
            Step::Blocked(_) => self.source_blocked(),
            _ => Ok(Flow::Continue),
        }
    }

    /// Reads from a stream that has ended or is at its urgent mark, which only a read gets past.
    fn read_past_mark(&mut self) -> Result<Flow, RunError> {
        let max = self.round_limit - self.backlog.head;
        let blocking = self.context.blocking();
        match self
            .backlog
            .fill_by_read(&self.context.kernel, max, blocking)?
        {
            None => {
                self.round_end = Some(self.backlog.consumed());
                self.context.spurious_wakeups = 0;
                Ok(Flow::Continue)
            }
            Some(Step::Eof) => Ok(Flow::Ended(Ended::Eof)),
            Some(Step::Blocked(_)) => self.source_blocked(),
            Some(_) => Ok(Flow::Continue),
        }
    }

    /// Reads to confirm the end of a file, which may hide its size.
    fn confirm_end(&mut self) -> Result<Flow, RunError> {
        let max = self.round_limit - self.backlog.head;
        let blocking = self.context.blocking();
        let filled = self
            .backlog
            .fill_buffer(&self.context.kernel, max, max, blocking)?;
        match filled {
            None if self.context.options.strategy == Some(Strategy::Tee) => {
                let reason = "it stopped before the end of the source";
                Err(RunError::unsuitable(Strategy::Tee, reason))
            }
            None => self.give_up_tee(None),
            Some(Step::Eof) => Ok(Flow::Ended(Ended::Eof)),
            Some(Step::Blocked(_)) => self.source_blocked(),
            Some(_) => Ok(Flow::Continue),
        }
    }

    /// Waits for the source, or fails if its own `SO_RCVTIMEO` expired inside the call.
    fn source_blocked(&mut self) -> Result<Flow, RunError> {
        let blocking = self.context.blocking();
        let source = &mut self.backlog.state.source;
        if source.has_timed_out(&self.context.kernel, Side::Source, blocking) {
            return Err(timed_out(Side::Source).into());
        }
        Ok(Flow::Wait(self.wait_for_blocked()))
    }

    /// Returns how many bytes at the head of the backlog `tee` may duplicate.
    fn teeable(&self) -> u64 {
        match (self.backlog.storage, self.round_end) {
            (Storage::Buffer, _) | (_, None) => 0,
            (_, Some(end)) => end - self.backlog.head,
        }
    }

    /// Duplicates the head of the backlog for one sink, if the sink does not have it yet.
    fn tee(&mut self, index: usize, blocking: Blocking) -> Result<Retry, RunError> {
        let len = self.teeable();
        let sink = &mut self.sinks[index];
        let has_it = sink.taken > self.backlog.head || sink.state.in_flight() > 0;
        if !sink.is_live() || !sink.uses_tee() || has_it || len == 0 {
            return Ok(Retry::WhenReady);
        }
        match sink.tee(&self.context.kernel, &mut self.backlog, len, blocking) {
            Ok(Step::Moved(_)) => Ok(Retry::WhenReady),
            // The private pipe holds bytes and has a writer.
            Ok(Step::Eof) => Err(backlog::missing_bytes("tee").into()),
            Ok(step) => self.sink_not_served(index, step, blocking),
            Err(error) => self.sink_call_failed(index, error),
        }
    }

    /// Splices or writes one sink's private pipe into it.
    pub(super) fn drain(&mut self, index: usize, blocking: Blocking) -> Result<Retry, RunError> {
        let sink = &mut self.sinks[index];
        let has_bytes = sink.is_live() && sink.state.in_flight() > 0;
        if !has_bytes || !sink.is_ready(&self.context.kernel, blocking) {
            return Ok(Retry::WhenReady);
        }
        match sink.drain(&self.context.kernel, blocking) {
            Ok(Step::Moved(_)) => {
                let is_requested = self.context.options.strategy.is_some();
                if self.sinks[index].state.sink.is_shared() && !is_requested {
                    self.sinks[index].drain_by_writing();
                }
                Ok(Retry::WhenReady)
            }
            Ok(step) => self.sink_not_served(index, step, blocking),
            Err(error) => self.sink_call_failed(index, error),
        }
    }

    /// Takes bytes out of the backlog that every other sink has. A break ends the step.
    fn consume_backlog(
        &mut self,
        blocking: Blocking,
    ) -> Result<ControlFlow<Flow, Retry>, RunError> {
        let teed = self.sinks.iter();
        let teed = teed.filter(|sink| sink.is_live() && sink.uses_tee());
        let end = teed.map(|sink| sink.taken).min();
        let end = end.or(self.round_end).unwrap_or(self.round_limit);
        // One read may return one packet of several that were spliced for it.
        let in_pipe = match self.backlog.storage {
            Storage::Pipe => 0,
            Storage::Buffer => self.backlog.state.in_pipe(),
        };
        let len = end.saturating_sub(self.backlog.head).max(in_pipe);
        let live = || self.sinks.iter().filter(|sink| sink.is_live());
        let some_are_buffered = live().any(|sink| sink.served_by == Strategy::Buffered);
        let last = self
            .sinks
            .iter()
            .position(|sink| sink.is_live() && sink.served_by == Strategy::Splice);
        match last {
            Some(index) if !some_are_buffered => {
                Ok(ControlFlow::Continue(self.splice(index, len, blocking)?))
            }
            // Bytes that no sink wants are read and dropped.
            _ => {
                let mut retry = match self.fill_buffer(len, blocking)? {
                    ControlFlow::Continue(retry) => retry,
                    ControlFlow::Break(flow) => return Ok(ControlFlow::Break(flow)),
                };
                for index in 0..self.sinks.len() {
                    retry = retry.or(self.write(index, blocking)?);
                }
                Ok(ControlFlow::Continue(retry))
            }
        }
    }

    /// Returns whether a read may succeed although a splice from the source failed: nothing has
    /// moved yet, and the source is not a socket, which reports an error once.
    fn may_read_instead(&self, error: &CallError) -> bool {
        let is_socket = self.backlog.state.source.info.is_socket();
        let errno = error.cause.errno();
        let is_final = errno.is_none_or(|errno| Strategy::SplicePipe.is_fatal(errno));
        self.backlog.consumed() == 0 && !is_socket && !is_final
    }

    /// Handles a failed call for a sink. A sink that has accepted nothing yet may still accept a
    /// write.
    fn sink_call_failed(&mut self, index: usize, error: CallError) -> Result<Retry, RunError> {
        let sink = &mut self.sinks[index];
        let errno = error.cause.errno();
        let strategy = sink.strategy();
        let is_final = errno.is_none_or(|errno| strategy.is_fatal(errno));
        if is_final || sink.delivered > 0 || sink.state.sink.info.is_socket() {
            self.sink_failed(index, error)?;
        } else if sink.state.in_flight() > 0 {
            sink.drain_by_writing();
        } else {
            self.serve_by_writing(index, error.cause)?;
        }
        Ok(Retry::AtOnce)
    }

    /// Splices up to `len` bytes out of the backlog into the sink that was chosen for this.
    pub(super) fn splice(
        &mut self,
        index: usize,
        len: u64,
        blocking: Blocking,
    ) -> Result<Retry, RunError> {
        let sink = &mut self.sinks[index];
        if len == 0 || !sink.is_ready(&self.context.kernel, blocking) {
            return Ok(Retry::WhenReady);
        }
        let len = len.min(sink.state.sink.prompt_len(&self.context.kernel, blocking));
        let spliced =
            self.backlog
                .splice_to(&self.context.kernel, &mut sink.state.sink, len, blocking);
        match spliced {
            Ok(Step::Moved(n)) => {
                sink.taken = self.backlog.head;
                sink.accepted(n);
                sink.has_spliced = true;
                let is_shared = sink.state.sink.is_shared();
                if is_shared && self.context.options.strategy.is_none() {
                    self.serve_by_writing(index, Cause::SharedCursor)?;
                }
                Ok(Retry::WhenReady)
            }
            Ok(step) => self.sink_not_served(index, step, blocking),
            Err(error) => self.sink_call_failed(index, error),
        }
    }

    /// Reads up to `len` bytes from the backlog, or from the source, into the empty buffer. A break
    /// ends the step.
    pub(super) fn fill_buffer(
        &mut self,
        len: u64,
        blocking: Blocking,
    ) -> Result<ControlFlow<Flow, Retry>, RunError> {
        if !self.backlog.state.buffer.is_empty() || len == 0 {
            return Ok(ControlFlow::Continue(Retry::WhenReady));
        }
        let left = self.context.left(self.backlog.head);
        let filled = self
            .backlog
            .fill_buffer(&self.context.kernel, len, left, blocking)?;
        let flow = match filled {
            None => {
                self.round_end.get_or_insert(self.backlog.head);
                return Ok(ControlFlow::Continue(Retry::AtOnce));
            }
            Some(Step::Eof) if self.round_end.is_some() => {
                return Err(backlog::missing_bytes("read").into());
            }
            Some(Step::Eof) => Flow::Ended(Ended::Eof),
            Some(Step::Limit) => Flow::Ended(Ended::Limit),
            Some(Step::Blocked(_)) => self.source_blocked()?,
            Some(_) => Flow::Continue,
        };
        Ok(ControlFlow::Break(flow))
    }

    /// Writes once to one sink from the buffer.
    pub(super) fn write(&mut self, index: usize, blocking: Blocking) -> Result<Retry, RunError> {
        let sink = &mut self.sinks[index];
        let is_written_to = sink.is_live()
            && sink.served_by == Strategy::Buffered
            && !self.backlog.buffered_at(sink.delivered).is_empty();
        if !is_written_to || !sink.is_ready(&self.context.kernel, blocking) {
            return Ok(Retry::WhenReady);
        }
        match sink.write(&self.context.kernel, &self.backlog, blocking) {
            Ok(Step::Moved(_)) => Ok(Retry::WhenReady),
            Ok(step) => self.sink_not_served(index, step, blocking),
            Err(error) => self.sink_call_failed(index, error),
        }
    }

    /// Handles a call for a sink that moved nothing.
    fn sink_not_served(
        &mut self,
        index: usize,
        step: Step,
        blocking: Blocking,
    ) -> Result<Retry, RunError> {
        match step {
            Step::Blocked(_) => match self.sinks[index].blocked(&self.context.kernel, blocking) {
                Ok(()) => Ok(Retry::WhenReady),
                Err(error) => self.sink_call_failed(index, error),
            },
            Step::Unsupported(cause) => self.serve_by_writing(index, cause).map(|()| Retry::AtOnce),
            _ => Ok(Retry::AtOnce),
        }
    }

    /// Serves a sink from the buffer from now on, because it refuses to splice. It has accepted all
    /// bytes that it was given.
    fn serve_by_writing(&mut self, index: usize, cause: Cause) -> Result<(), RunError> {
        if self.context.options.strategy == Some(Strategy::Tee) {
            return Err(refused(Strategy::Tee, cause));
        }
        for sink in &mut self.sinks {
            if sink.served_by == Strategy::Splice && sink.is_live() {
                SinkState::use_tee(sink);
            }
        }
        let sink = &mut self.sinks[index];
        sink.served_by = Strategy::Buffered;
        // The pipe is empty, and its pages count against the user's limit for pipes.
        sink.state.pipe = None;
        let mut live = self.sinks.iter().filter(|sink| sink.is_live());
        if live.all(|sink| sink.served_by == Strategy::Buffered) {
            let attempt = self.context.attempt(Strategy::Tee);
            attempt.cause.get_or_insert(cause);
        }
        Ok(())
    }
}
