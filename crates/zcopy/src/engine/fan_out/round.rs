//! One turn of a fan-out: bytes are shared, delivered, and taken out of the backlog.

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

/// When a sink that was served may take more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// At once: it is served in another way, or a signal came.
    AtOnce,
    /// When something moves or becomes ready.
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
    /// Which sink takes the bytes out of the backlog when all others have their share: the last one
    /// that is no pipe, so that the pipes, which need no pipe of their own, are tee'd into. None if
    /// some are written to: then the buffer takes the bytes out.
    pub(super) fn choose_consumer(&mut self) {
        if self.backlog.storage == Storage::Buffer {
            return;
        }
        let live = || self.sinks.iter().enumerate().filter(|(_, b)| b.is_live());
        let some_are_written_to = live().any(|(_, sink)| sink.way == Strategy::Buffered);
        let some_are_spliced = live().any(|(_, sink)| sink.way != Strategy::Buffered);
        if !some_are_spliced && self.context.options.strategy != Some(Strategy::Tee) {
            // Nothing is shared any more, and nothing waits in the backlog.
            self.backlog.storage = Storage::Buffer;
            self.backlog.state.pipe = None;
            return;
        }
        let last = |way| live().rev().find(|(_, b)| b.way == way).map(|(i, _)| i);
        let current = last(Strategy::Splice);
        match current {
            Some(index) if some_are_written_to => self.sinks[index].be_shared_with(),
            Some(_) => {}
            None if some_are_written_to => {}
            None => {
                let last = last(Strategy::SplicePipe).or_else(|| last(Strategy::Tee));
                if let Some(index) = last {
                    self.sinks[index].way = Strategy::Splice;
                }
            }
        }
    }

    /// Serves every sink once.
    pub(super) fn serve(&mut self) -> Result<Flow, RunError> {
        let blocking = self.context.blocking();
        for sink in &mut self.sinks {
            sink.blocked = false;
        }
        if self.backlog.storage == Storage::Pipe && self.all_caught_up() {
            let max = self.bound - self.backlog.head;
            match self.backlog.fill(&self.context.kernel, max, blocking) {
                Ok(None) => {
                    self.share_end = Some(self.backlog.consumed());
                    self.context.spurious_wakeups = 0;
                }
                Ok(Some(step)) => return self.not_filled(step),
                Err(error) if self.is_first_trouble(&error) => {
                    return self.give_up_tee(Some(error.cause));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let before = self.mark();
        let mut retry = Retry::WhenReady;
        for index in 0..self.sinks.len() {
            retry = retry.or(self.share(index, blocking)?);
            retry = retry.or(self.drain(index, blocking)?);
        }
        retry = match self.take_out(blocking)? {
            ControlFlow::Continue(taken) => retry.or(taken),
            ControlFlow::Break(flow) => return Ok(flow),
        };
        let has_moved = self.mark() != before;
        if has_moved {
            self.context.spurious_wakeups = 0;
        }
        if has_moved || retry == Retry::AtOnce {
            return Ok(Flow::Continue);
        }
        Ok(Flow::Wait(self.wait_for_blocked()))
    }

    /// Everything that a step can move, so that any movement shows.
    fn mark(&self) -> (u64, u64, u64) {
        let taken = self.sinks.iter().map(|sink| sink.taken).sum();
        let delivered = self.sinks.iter().map(|sink| sink.delivered).sum();
        (self.backlog.head, taken, delivered)
    }

    /// What to make of a source that gave the backlog nothing.
    fn not_filled(&mut self, step: Step) -> Result<Flow, RunError> {
        let source = self.backlog.state.source.info;
        match step {
            Step::Eof if source.kind == Kind::Pipe => Ok(Flow::Ended(Ended::Eof)),
            Step::Eof if source.kind == Kind::Stream => self.read_past_mark(),
            // It polled as readable, and nothing can be spliced from it all the same.
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

    /// A stream has ended, or stands at its urgent mark: a read tells, and gets past it.
    fn read_past_mark(&mut self) -> Result<Flow, RunError> {
        let max = self.bound - self.backlog.head;
        let blocking = self.context.blocking();
        match self
            .backlog
            .fill_by_read(&self.context.kernel, max, blocking)?
        {
            None => {
                self.share_end = Some(self.backlog.consumed());
                self.context.spurious_wakeups = 0;
                Ok(Flow::Continue)
            }
            Some(Step::Eof) => Ok(Flow::Ended(Ended::Eof)),
            Some(Step::Blocked(_)) => self.source_blocked(),
            Some(_) => Ok(Flow::Continue),
        }
    }

    /// A file may hide its size: a read has the last word.
    fn confirm_end(&mut self) -> Result<Flow, RunError> {
        let max = self.bound - self.backlog.head;
        let blocking = self.context.blocking();
        let copied = self
            .backlog
            .copy(&self.context.kernel, max, max, blocking)?;
        match copied {
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

    /// Waits for the source, unless its own `SO_RCVTIMEO` has answered.
    fn source_blocked(&mut self) -> Result<Flow, RunError> {
        let blocking = self.context.blocking();
        let source = &mut self.backlog.state.source;
        if source.has_timed_out(&self.context.kernel, Side::Source, blocking) {
            return Err(timed_out(Side::Source).into());
        }
        Ok(Flow::Wait(self.wait_for_blocked()))
    }

    /// How many bytes at the head of the backlog may be shared.
    fn shareable(&self) -> u64 {
        match (self.backlog.storage, self.share_end) {
            (Storage::Buffer, _) | (_, None) => 0,
            (_, Some(end)) => end - self.backlog.head,
        }
    }

    /// Shares the head of the backlog with one sink, if it has not got it yet.
    fn share(&mut self, index: usize, blocking: Blocking) -> Result<Retry, RunError> {
        let len = self.shareable();
        let sink = &mut self.sinks[index];
        let has_it = sink.taken > self.backlog.head || sink.state.in_flight() > 0;
        if !sink.is_live() || !sink.is_shared_with() || has_it || len == 0 {
            return Ok(Retry::WhenReady);
        }
        match sink.share(&self.context.kernel, &mut self.backlog, len, blocking) {
            Ok(Step::Moved(_)) => Ok(Retry::WhenReady),
            // The private pipe holds bytes and has a writer.
            Ok(Step::Eof) => Err(backlog::vanished("tee").into()),
            Ok(step) => self.not_served(index, step, blocking),
            Err(error) => self.failed(index, error),
        }
    }

    /// Gives one sink what waits in its own pipe.
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
                    self.sinks[index].write_out_of_its_pipe();
                }
                Ok(Retry::WhenReady)
            }
            Ok(step) => self.not_served(index, step, blocking),
            Err(error) => self.failed(index, error),
        }
    }

    /// Takes out of the backlog what every other sink has its share of. A break ends the step.
    fn take_out(&mut self, blocking: Blocking) -> Result<ControlFlow<Flow, Retry>, RunError> {
        let shares = self.sinks.iter();
        let shares = shares.filter(|b| b.is_live() && b.is_shared_with());
        let end = shares.map(|sink| sink.taken).min();
        let end = end.or(self.share_end).unwrap_or(self.bound);
        // A read may have brought one packet of several that were spliced out of the source for it.
        let in_pipe = match self.backlog.storage {
            Storage::Pipe => 0,
            Storage::Buffer => self.backlog.state.in_pipe(),
        };
        let len = end.saturating_sub(self.backlog.head).max(in_pipe);
        let live = || self.sinks.iter().filter(|sink| sink.is_live());
        let some_are_written_to = live().any(|sink| sink.way == Strategy::Buffered);
        let last = self
            .sinks
            .iter()
            .position(|sink| sink.is_live() && sink.way == Strategy::Splice);
        match last {
            Some(index) if !some_are_written_to => {
                Ok(ControlFlow::Continue(self.pour(index, len, blocking)?))
            }
            // Without a sink that wants them they are thrown away.
            _ => {
                let mut retry = match self.copy(len, blocking)? {
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

    /// Whether the source may yet be read, though it could not be spliced from: nothing has been, and
    /// it is no socket, which tells an error once.
    fn is_first_trouble(&self, error: &CallError) -> bool {
        let is_socket = self.backlog.state.source.info.is_socket();
        let errno = error.cause.errno();
        let is_final = errno.is_none_or(|errno| Strategy::SplicePipe.is_fatal(errno));
        self.backlog.consumed() == 0 && !is_socket && !is_final
    }

    /// What to make of a call for a sink that failed: one that has accepted nothing yet may yet be
    /// written to.
    fn failed(&mut self, index: usize, error: CallError) -> Result<Retry, RunError> {
        let sink = &mut self.sinks[index];
        let errno = error.cause.errno();
        let strategy = sink.strategy();
        let is_final = errno.is_none_or(|errno| strategy.is_fatal(errno));
        if is_final || sink.delivered > 0 || sink.state.sink.info.is_socket() {
            self.sink_failed(index, error)?;
        } else if sink.state.in_flight() > 0 {
            sink.write_out_of_its_pipe();
        } else {
            self.write_to(index, error.cause)?;
        }
        Ok(Retry::AtOnce)
    }

    /// Has the last sink take bytes out of the backlog.
    pub(super) fn pour(
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
        let poured = self
            .backlog
            .pour(&self.context.kernel, &mut sink.state.sink, len, blocking);
        match poured {
            Ok(Step::Moved(n)) => {
                sink.taken = self.backlog.head;
                sink.accepted(n);
                sink.has_spliced = true;
                let is_shared = sink.state.sink.is_shared();
                if is_shared && self.context.options.strategy.is_none() {
                    self.write_to(index, Cause::SharedCursor)?;
                }
                Ok(Retry::WhenReady)
            }
            Ok(step) => self.not_served(index, step, blocking),
            Err(error) => self.failed(index, error),
        }
    }

    /// Has the empty buffer take bytes out of the backlog, or out of the source. A break ends the step.
    pub(super) fn copy(
        &mut self,
        len: u64,
        blocking: Blocking,
    ) -> Result<ControlFlow<Flow, Retry>, RunError> {
        if !self.backlog.state.buffer.is_empty() || len == 0 {
            return Ok(ControlFlow::Continue(Retry::WhenReady));
        }
        let left = self.context.left(self.backlog.head);
        let copied = self
            .backlog
            .copy(&self.context.kernel, len, left, blocking)?;
        let flow = match copied {
            None => {
                self.share_end.get_or_insert(self.backlog.head);
                return Ok(ControlFlow::Continue(Retry::AtOnce));
            }
            Some(Step::Eof) if self.share_end.is_some() => {
                return Err(backlog::vanished("read").into());
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
            && sink.way == Strategy::Buffered
            && !self.backlog.buffered_at(sink.delivered).is_empty();
        if !is_written_to || !sink.is_ready(&self.context.kernel, blocking) {
            return Ok(Retry::WhenReady);
        }
        match sink.write(&self.context.kernel, &self.backlog, blocking) {
            Ok(Step::Moved(_)) => Ok(Retry::WhenReady),
            Ok(step) => self.not_served(index, step, blocking),
            Err(error) => self.failed(index, error),
        }
    }

    /// What to make of a sink that took nothing.
    fn not_served(
        &mut self,
        index: usize,
        step: Step,
        blocking: Blocking,
    ) -> Result<Retry, RunError> {
        match step {
            Step::Blocked(_) => match self.sinks[index].blocked(&self.context.kernel, blocking) {
                Ok(()) => Ok(Retry::WhenReady),
                Err(error) => self.failed(index, error),
            },
            Step::Unsupported(cause) => self.write_to(index, cause).map(|()| Retry::AtOnce),
            _ => Ok(Retry::AtOnce),
        }
    }

    /// Serves a sink from the buffer from now on, because it takes no splice. What it has been given
    /// it has accepted.
    fn write_to(&mut self, index: usize, cause: Cause) -> Result<(), RunError> {
        if self.context.options.strategy == Some(Strategy::Tee) {
            return Err(refused(Strategy::Tee, cause));
        }
        for sink in &mut self.sinks {
            if sink.way == Strategy::Splice && sink.is_live() {
                SinkState::be_shared_with(sink);
            }
        }
        let sink = &mut self.sinks[index];
        sink.way = Strategy::Buffered;
        // It is empty, and others may need what it takes of the user's budget.
        sink.state.pipe = None;
        let mut live = self.sinks.iter().filter(|sink| sink.is_live());
        if live.all(|sink| sink.way == Strategy::Buffered) {
            let attempt = self.context.attempt(Strategy::Tee);
            attempt.cause.get_or_insert(cause);
        }
        Ok(())
    }
}
