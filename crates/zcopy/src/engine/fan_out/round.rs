//! One step of a round: bytes are duplicated, delivered, and taken out of the backlog.

use std::ops::ControlFlow;

use super::FanOutEngine;
use super::backlog;
use crate::call_error::{CallError, Cause};
use crate::engine::Flow;
use crate::error::RunError;
use crate::fd_info::Kind;
use crate::report::Ended;
use crate::side::Side;
use crate::step::Step;
use crate::strategy::Strategy;
use crate::sys::{Blocking, Kernel};

/// When to call again for a sink that was served, the earlier time first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Retry {
    /// At once: another call serves it now, or a signal came.
    AtOnce,
    /// After progress: no other call helps this sink before bytes have moved, for it or for another
    /// sink, or an endpoint has become ready.
    AfterProgress,
}

impl<K: Kernel> FanOutEngine<'_, K> {
    /// Fills an empty backlog, then makes the calls that every sink needs next.
    pub(super) fn serve(&mut self) -> Result<Flow, RunError> {
        let blocking = self.context.blocking();
        for sink in &mut self.sinks {
            sink.blocked = false;
        }
        if self.strategy() == Strategy::Tee && self.all_caught_up() {
            let max = self.round_limit - self.backlog.head_position;
            match self.backlog.fill_pipe(&self.context.kernel, max, blocking) {
                Ok(Step::Filled) => {
                    self.round_end = Some(self.backlog.consumed());
                    self.context.times_blocked = 0;
                    self.write_if_short();
                }
                Ok(step) => return self.not_filled(step),
                Err(error) if self.may_read_instead(&error) => {
                    return self.give_up_tee(Some(error.cause));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let before = self.positions();
        let mut retry = Retry::AfterProgress;
        for index in 0..self.sinks.len() {
            retry = retry.min(self.tee(index, blocking)?);
            retry = retry.min(self.drain(index, blocking)?);
        }
        let len = self.consumable();
        if let Some(index) = self.consuming_sink() {
            retry = retry.min(self.splice(index, len, blocking)?);
        } else {
            // For the sinks that are written to. If there are none, the bytes are dropped.
            match self.fill_buffer(len, blocking)? {
                ControlFlow::Continue(filled) => retry = retry.min(filled),
                ControlFlow::Break(flow) => return Ok(flow),
            }
            for index in 0..self.sinks.len() {
                retry = retry.min(self.write(index, blocking)?);
            }
        }
        let has_moved = self.positions() != before;
        if has_moved {
            self.context.times_blocked = 0;
        }
        if has_moved || retry == Retry::AtOnce {
            return Ok(Flow::Observe);
        }
        Ok(Flow::Wait(self.wait_for_blocked()))
    }

    /// Returns the sums of all positions that a step can move.
    fn positions(&self) -> (u64, u64, u64) {
        let given = self.sinks.iter().map(|sink| sink.given).sum();
        let delivered = self.sinks.iter().map(|sink| sink.delivered).sum();
        (self.backlog.head_position, given, delivered)
    }

    /// Decides what to do when a splice from the source moved nothing.
    fn not_filled(&mut self, step: Step) -> Result<Flow, RunError> {
        let source = self.backlog.state.source.info;
        match step {
            Step::Eof if source.kind == Kind::Stream => self.read_past_mark(),
            // The socket polled as readable, and the splice failed with `EAGAIN` all the same.
            Step::Blocked(_) if source.kind == Kind::Stream && self.context.times_blocked > 0 => {
                self.read_past_mark()
            }
            Step::Eof if source.kind != Kind::Pipe => self.confirm_end(),
            // The bytes are in the private pipe, from which a read takes them.
            Step::Unsupported(cause) if self.backlog.state.in_pipe() > 0 => {
                self.round_end = Some(self.backlog.consumed());
                for index in 0..self.sinks.len() {
                    if self.sinks[index].is_live() {
                        self.serve_by_writing(index, cause)?;
                    }
                }
                Ok(Flow::Observe)
            }
            Step::Unsupported(cause) => self.give_up_tee(Some(cause)),
            step => self.source_step(step),
        }
    }

    /// Reads from a stream that has ended or is at its urgent mark, which only a read gets past.
    fn read_past_mark(&mut self) -> Result<Flow, RunError> {
        let max = self.round_limit - self.backlog.head_position;
        let blocking = self.context.blocking();
        match self
            .backlog
            .fill_by_read(&self.context.kernel, max, blocking)?
        {
            Step::Filled => {
                self.round_end = Some(self.backlog.consumed());
                self.context.times_blocked = 0;
                Ok(Flow::Observe)
            }
            step => self.source_step(step),
        }
    }

    /// Reads to confirm the end of a file, which may hide its size.
    fn confirm_end(&mut self) -> Result<Flow, RunError> {
        let max = self.round_limit - self.backlog.head_position;
        let blocking = self.context.blocking();
        let filled = self
            .backlog
            .fill_buffer(&self.context.kernel, max, max, blocking)?;
        match filled {
            Step::Filled if self.context.options.strategy == Some(Strategy::Tee) => {
                let reason = "it stopped before the end of the source";
                Err(RunError::unsuitable(Strategy::Tee, reason))
            }
            Step::Filled => self.give_up_tee(None),
            step => self.source_step(step),
        }
    }

    /// Decides what to do after a call that got nothing from the source.
    fn source_step(&mut self, step: Step) -> Result<Flow, RunError> {
        match step {
            Step::Eof => Ok(Flow::Ended(Ended::Eof)),
            Step::MessageTooLong => Ok(Flow::Ended(Ended::Limit)),
            Step::Blocked(_) => {
                let source = &mut self.backlog.state.source;
                self.context.check_time_out(Side::Source, source)?;
                Ok(Flow::Wait(self.wait_for_blocked()))
            }
            _ => Ok(Flow::Observe),
        }
    }

    /// Returns how many bytes at the head of the backlog `tee` may duplicate.
    fn teeable(&self) -> u64 {
        match (self.strategy(), self.round_end) {
            (Strategy::Tee, Some(end)) => end - self.backlog.head_position,
            _ => 0,
        }
    }

    /// Duplicates the head of the backlog for one sink, if the sink does not have it yet.
    fn tee(&mut self, index: usize, blocking: Blocking) -> Result<Retry, RunError> {
        let len = self.teeable();
        let sink = &mut self.sinks[index];
        let has_it = sink.given > self.backlog.head_position || sink.state.in_flight() > 0;
        if !sink.is_live() || !sink.uses_tee() || has_it || len == 0 {
            return Ok(Retry::AfterProgress);
        }
        match sink.tee(&self.context.kernel, &mut self.backlog, len, blocking) {
            // The private pipe holds bytes and has a writer.
            Ok(Step::Eof) => Err(backlog::missing_bytes("tee").into()),
            step => self.sink_step(index, step),
        }
    }

    /// Splices or writes one sink's private pipe into it.
    pub(super) fn drain(&mut self, index: usize, blocking: Blocking) -> Result<Retry, RunError> {
        let sink = &mut self.sinks[index];
        let has_bytes = sink.is_live() && sink.state.in_flight() > 0;
        if !has_bytes || !sink.check_ready(&self.context.kernel, blocking) {
            return Ok(Retry::AfterProgress);
        }
        let step = sink.drain(&self.context.kernel, blocking);
        let is_requested = self.context.options.strategy.is_some();
        if let Ok(Step::Moved(_)) = step
            && sink.state.sink.cursor_was_moved()
            && !is_requested
        {
            sink.drained_by = Strategy::Buffered;
        }
        self.sink_step(index, step)
    }

    /// Returns how many bytes may be taken out of the backlog: all that `tee` has duplicated for
    /// every sink that needs it.
    fn consumable(&self) -> u64 {
        let teed = self.live().filter(|(_, sink)| sink.uses_tee());
        let end = teed.map(|(_, sink)| sink.given).min();
        let end = end.or(self.round_end).unwrap_or(self.round_limit);
        // One read may return one packet of several that were spliced for it.
        let in_pipe = match self.strategy() {
            Strategy::Tee => 0,
            _ => self.backlog.state.in_pipe(),
        };
        end.saturating_sub(self.backlog.head_position).max(in_pipe)
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
            sink.drained_by = Strategy::Buffered;
        } else {
            self.serve_by_writing(index, error.cause)?;
        }
        Ok(Retry::AtOnce)
    }

    /// Splices up to `len` bytes out of the backlog into the consuming sink.
    pub(super) fn splice(
        &mut self,
        index: usize,
        len: u64,
        blocking: Blocking,
    ) -> Result<Retry, RunError> {
        let sink = &mut self.sinks[index];
        if len == 0 || !sink.check_ready(&self.context.kernel, blocking) {
            return Ok(Retry::AfterProgress);
        }
        let len = len.min(
            sink.state
                .sink
                .nonblocking_len(&self.context.kernel, blocking),
        );
        let spliced =
            self.backlog
                .splice_to(&self.context.kernel, &mut sink.state.sink, len, blocking);
        match spliced {
            Ok(Step::Moved(n)) => {
                sink.given = self.backlog.head_position;
                sink.accepted(n);
                sink.has_shared_pages = true;
                let cursor_was_moved = sink.state.sink.cursor_was_moved();
                if cursor_was_moved && self.context.options.strategy.is_none() {
                    self.serve_by_writing(index, Cause::SharedCursor)?;
                }
                Ok(Retry::AfterProgress)
            }
            step => self.sink_step(index, step),
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
            return Ok(ControlFlow::Continue(Retry::AfterProgress));
        }
        let until_limit = self.context.until_limit(self.backlog.head_position);
        let filled = self
            .backlog
            .fill_buffer(&self.context.kernel, len, until_limit, blocking)?;
        match filled {
            Step::Filled => {
                self.round_end.get_or_insert(self.backlog.head_position);
                Ok(ControlFlow::Continue(Retry::AtOnce))
            }
            Step::Eof if self.round_end.is_some() => Err(backlog::missing_bytes("read").into()),
            step => self.source_step(step).map(ControlFlow::Break),
        }
    }

    /// Writes once to one sink from the buffer.
    pub(super) fn write(&mut self, index: usize, blocking: Blocking) -> Result<Retry, RunError> {
        let sink = &mut self.sinks[index];
        let is_written_to = sink.is_live()
            && sink.served_by == Strategy::Buffered
            && !self.backlog.buffered_at(sink.delivered).is_empty();
        if !is_written_to || !sink.check_ready(&self.context.kernel, blocking) {
            return Ok(Retry::AfterProgress);
        }
        let step = sink.write(&self.context.kernel, &self.backlog, blocking);
        self.sink_step(index, step)
    }

    /// Decides when to call again for a sink, after the result of a call for it.
    fn sink_step(
        &mut self,
        index: usize,
        step: Result<Step, CallError>,
    ) -> Result<Retry, RunError> {
        match step {
            Ok(Step::Moved(_)) => Ok(Retry::AfterProgress),
            Ok(Step::Blocked(_)) => {
                let sink = &mut self.sinks[index];
                // If no time-out has expired, the sink is full.
                let endpoint = &mut sink.state.sink;
                if let Err(error) = self.context.check_time_out(Side::Sink, endpoint) {
                    return self.sink_call_failed(index, error);
                }
                sink.blocked = true;
                Ok(Retry::AfterProgress)
            }
            Ok(Step::Unsupported(cause)) => {
                self.serve_by_writing(index, cause)?;
                Ok(Retry::AtOnce)
            }
            Ok(_) => Ok(Retry::AtOnce),
            Err(error) => self.sink_call_failed(index, error),
        }
    }
}
