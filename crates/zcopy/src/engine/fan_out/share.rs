//! One turn of a fan-out: bytes are shared, delivered, and taken out of the hub.

use std::ops::ControlFlow;

use super::FanOutEngine;
use super::branch::Branch;
use super::hub::{self, Form};
use crate::context::{refused, timed_out};
use crate::endpoint::Kind;
use crate::engine::Flow;
use crate::error::Failure;
use crate::fault::{Cause, Fault};
use crate::report::Ended;
use crate::side::Side;
use crate::step::Step;
use crate::strategy::Strategy;
use crate::sys::{Kernel, Patience};

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
    /// Which sink takes the bytes out of the hub when all others have their share: the last one
    /// that is no pipe, so that the pipes, which need no pipe of their own, are tee'd into. None if
    /// some are written to: then the buffer takes the bytes out.
    pub(super) fn choose_last(&mut self) {
        if self.hub.form == Form::Buffer {
            return;
        }
        let live = || {
            self.branches
                .iter()
                .enumerate()
                .filter(|(_, b)| b.is_live())
        };
        let some_are_written_to = live().any(|(_, branch)| branch.way == Strategy::Buffered);
        let some_are_spliced = live().any(|(_, branch)| branch.way != Strategy::Buffered);
        if !some_are_spliced && self.context.options.strategy != Some(Strategy::Tee) {
            // Nothing is shared any more, and nothing waits in the hub.
            self.hub.form = Form::Buffer;
            self.hub.route.pipe = None;
            return;
        }
        let last = |way| live().rev().find(|(_, b)| b.way == way).map(|(i, _)| i);
        let current = last(Strategy::Splice);
        match current {
            Some(index) if some_are_written_to => self.branches[index].be_shared_with(),
            Some(_) => {}
            None if some_are_written_to => {}
            None => {
                let last = last(Strategy::SplicePipe).or_else(|| last(Strategy::Tee));
                if let Some(index) = last {
                    self.branches[index].way = Strategy::Splice;
                }
            }
        }
    }

    /// Serves every sink once.
    pub(super) fn serve(&mut self) -> Result<Flow, Failure> {
        let patience = self.context.patience();
        for branch in &mut self.branches {
            branch.blocked = false;
        }
        if self.hub.form == Form::Pipe && self.is_even() {
            let max = self.bound - self.hub.head;
            match self.hub.fill(&self.context.kernel, max, patience) {
                Ok(None) => {
                    self.share_end = Some(self.hub.consumed());
                    self.context.false_starts = 0;
                }
                Ok(Some(step)) => return self.not_filled(step),
                Err(fault) if self.is_first_trouble(&fault) => {
                    return self.give_up_tee(Some(fault.cause));
                }
                Err(fault) => return Err(fault.into()),
            }
        }
        let before = self.mark();
        let mut retry = Retry::WhenReady;
        for index in 0..self.branches.len() {
            retry = retry.or(self.share(index, patience)?);
            retry = retry.or(self.drain(index, patience)?);
        }
        retry = match self.take_out(patience)? {
            ControlFlow::Continue(taken) => retry.or(taken),
            ControlFlow::Break(flow) => return Ok(flow),
        };
        let has_moved = self.mark() != before;
        if has_moved {
            self.context.false_starts = 0;
        }
        if has_moved || retry == Retry::AtOnce {
            return Ok(Flow::Continue);
        }
        Ok(Flow::Wait(self.wait_for_blocked()))
    }

    /// Everything that a step can move, so that any movement shows.
    fn mark(&self) -> (u64, u64, u64) {
        let taken = self.branches.iter().map(|branch| branch.taken).sum();
        let delivered = self.branches.iter().map(|branch| branch.delivered).sum();
        (self.hub.head, taken, delivered)
    }

    /// What to make of a source that gave the hub nothing.
    fn not_filled(&mut self, step: Step) -> Result<Flow, Failure> {
        let source = self.hub.route.source.endpoint;
        match step {
            Step::Eof if source.kind == Kind::Pipe => Ok(Flow::Ended(Ended::Eof)),
            Step::Eof if source.kind == Kind::Stream => self.read_past_mark(),
            // It polled as readable, and nothing can be spliced from it all the same.
            Step::Blocked(_) if source.kind == Kind::Stream && self.context.false_starts > 0 => {
                self.read_past_mark()
            }
            Step::Eof => self.confirm_end(),
            Step::Unsupported(cause) => self.give_up_tee(Some(cause)),
            Step::Blocked(_) => self.source_blocked(),
            _ => Ok(Flow::Continue),
        }
    }

    /// A stream has ended, or stands at its urgent mark: a read tells, and gets past it.
    fn read_past_mark(&mut self) -> Result<Flow, Failure> {
        let max = self.bound - self.hub.head;
        let patience = self.context.patience();
        match self.hub.fill_by_read(&self.context.kernel, max, patience)? {
            None => {
                self.share_end = Some(self.hub.consumed());
                self.context.false_starts = 0;
                Ok(Flow::Continue)
            }
            Some(Step::Eof) => Ok(Flow::Ended(Ended::Eof)),
            Some(Step::Blocked(_)) => self.source_blocked(),
            Some(_) => Ok(Flow::Continue),
        }
    }

    /// A file may hide its size: a read has the last word.
    fn confirm_end(&mut self) -> Result<Flow, Failure> {
        let max = self.bound - self.hub.head;
        let patience = self.context.patience();
        let copied = self.hub.copy(&self.context.kernel, max, max, patience)?;
        match copied {
            None if self.context.options.strategy == Some(Strategy::Tee) => {
                let reason = "it stopped before the end of the source";
                Err(Failure::unsuitable(Strategy::Tee, reason))
            }
            None => self.give_up_tee(None),
            Some(Step::Eof) => Ok(Flow::Ended(Ended::Eof)),
            Some(Step::Blocked(_)) => self.source_blocked(),
            Some(_) => Ok(Flow::Continue),
        }
    }

    /// Waits for the source, unless its own `SO_RCVTIMEO` has answered.
    fn source_blocked(&mut self) -> Result<Flow, Failure> {
        let patience = self.context.patience();
        let source = &mut self.hub.route.source;
        if source.has_timed_out(&self.context.kernel, Side::Source, patience) {
            return Err(timed_out(Side::Source).into());
        }
        Ok(Flow::Wait(self.wait_for_blocked()))
    }

    /// How many bytes at the head of the hub may be shared.
    fn shareable(&self) -> u64 {
        match (self.hub.form, self.share_end) {
            (Form::Buffer, _) | (_, None) => 0,
            (_, Some(end)) => end - self.hub.head,
        }
    }

    /// Shares the head of the hub with one sink, if it has not got it yet.
    fn share(&mut self, index: usize, patience: Patience) -> Result<Retry, Failure> {
        let len = self.shareable();
        let branch = &mut self.branches[index];
        let has_it = branch.taken > self.hub.head || branch.route.in_flight() > 0;
        if !branch.is_live() || !branch.is_shared_with() || has_it || len == 0 {
            return Ok(Retry::WhenReady);
        }
        match branch.share(&self.context.kernel, &mut self.hub, len, patience) {
            Ok(Step::Moved(_)) => Ok(Retry::WhenReady),
            // The private pipe holds bytes and has a writer.
            Ok(Step::Eof) => Err(hub::vanished("tee").into()),
            Ok(step) => self.not_served(index, step, patience),
            Err(fault) => self.failed(index, fault),
        }
    }

    /// Gives one sink what waits in its own pipe.
    pub(super) fn drain(&mut self, index: usize, patience: Patience) -> Result<Retry, Failure> {
        let branch = &mut self.branches[index];
        let has_bytes = branch.is_live() && branch.route.in_flight() > 0;
        if !has_bytes || !branch.is_ready(&self.context.kernel, patience) {
            return Ok(Retry::WhenReady);
        }
        match branch.drain(&self.context.kernel, patience) {
            Ok(Step::Moved(_)) => {
                let is_forced = self.context.options.strategy.is_some();
                if self.branches[index].route.sink.is_shared() && !is_forced {
                    self.branches[index].write_out_of_its_pipe();
                }
                Ok(Retry::WhenReady)
            }
            Ok(step) => self.not_served(index, step, patience),
            Err(fault) => self.failed(index, fault),
        }
    }

    /// Takes out of the hub what every other sink has its share of. A break ends the step.
    fn take_out(&mut self, patience: Patience) -> Result<ControlFlow<Flow, Retry>, Failure> {
        let shares = self.branches.iter();
        let shares = shares.filter(|b| b.is_live() && b.is_shared_with());
        let end = shares.map(|branch| branch.taken).min();
        let end = end.or(self.share_end).unwrap_or(self.bound);
        // A read may have brought one packet of several that were spliced out of the source for it.
        let in_pipe = match self.hub.form {
            Form::Pipe => 0,
            Form::Buffer => self.hub.route.in_pipe(),
        };
        let len = end.saturating_sub(self.hub.head).max(in_pipe);
        let live = || self.branches.iter().filter(|branch| branch.is_live());
        let some_are_written_to = live().any(|branch| branch.way == Strategy::Buffered);
        let last = self
            .branches
            .iter()
            .position(|branch| branch.is_live() && branch.way == Strategy::Splice);
        match last {
            Some(index) if !some_are_written_to => {
                Ok(ControlFlow::Continue(self.pour(index, len, patience)?))
            }
            // Without a sink that wants them they are thrown away.
            _ => {
                let mut retry = match self.copy(len, patience)? {
                    ControlFlow::Continue(retry) => retry,
                    ControlFlow::Break(flow) => return Ok(ControlFlow::Break(flow)),
                };
                for index in 0..self.branches.len() {
                    retry = retry.or(self.write(index, patience)?);
                }
                Ok(ControlFlow::Continue(retry))
            }
        }
    }

    /// Whether the source may yet be read, though it could not be spliced from: nothing has been, and
    /// it is no socket, which tells an error once.
    fn is_first_trouble(&self, fault: &Fault) -> bool {
        let is_socket = self.hub.route.source.endpoint.is_socket();
        let errno = fault.cause.errno();
        let is_final = errno.is_none_or(|errno| Strategy::SplicePipe.is_fatal(errno));
        self.hub.consumed() == 0 && !is_socket && !is_final
    }

    /// What to make of a call for a sink that failed: one that has accepted nothing yet may yet be
    /// written to.
    fn failed(&mut self, index: usize, fault: Fault) -> Result<Retry, Failure> {
        let branch = &mut self.branches[index];
        let errno = fault.cause.errno();
        let strategy = branch.strategy();
        let is_final = errno.is_none_or(|errno| strategy.is_fatal(errno));
        if is_final || branch.delivered > 0 || branch.route.sink.endpoint.is_socket() {
            self.sink_failed(index, fault)?;
        } else if branch.route.in_flight() > 0 {
            branch.write_out_of_its_pipe();
        } else {
            self.write_to(index, fault.cause)?;
        }
        Ok(Retry::AtOnce)
    }

    /// Has the last sink take bytes out of the hub.
    pub(super) fn pour(
        &mut self,
        index: usize,
        len: u64,
        patience: Patience,
    ) -> Result<Retry, Failure> {
        let branch = &mut self.branches[index];
        if len == 0 || !branch.is_ready(&self.context.kernel, patience) {
            return Ok(Retry::WhenReady);
        }
        let len = len.min(branch.route.sink.prompt_len(&self.context.kernel, patience));
        let poured = self
            .hub
            .pour(&self.context.kernel, &mut branch.route.sink, len, patience);
        match poured {
            Ok(Step::Moved(n)) => {
                branch.taken = self.hub.head;
                branch.accepted(n);
                branch.has_spliced = true;
                let is_shared = branch.route.sink.is_shared();
                if is_shared && self.context.options.strategy.is_none() {
                    self.write_to(index, Cause::SharedCursor)?;
                }
                Ok(Retry::WhenReady)
            }
            Ok(step) => self.not_served(index, step, patience),
            Err(fault) => self.failed(index, fault),
        }
    }

    /// Has the empty buffer take bytes out of the hub, or out of the source. A break ends the step.
    pub(super) fn copy(
        &mut self,
        len: u64,
        patience: Patience,
    ) -> Result<ControlFlow<Flow, Retry>, Failure> {
        if !self.hub.route.buffer.is_empty() || len == 0 {
            return Ok(ControlFlow::Continue(Retry::WhenReady));
        }
        let left = self.context.left(self.hub.head);
        let copied = self.hub.copy(&self.context.kernel, len, left, patience)?;
        let flow = match copied {
            None => {
                self.share_end.get_or_insert(self.hub.head);
                return Ok(ControlFlow::Continue(Retry::AtOnce));
            }
            Some(Step::Eof) if self.share_end.is_some() => {
                return Err(hub::vanished("read").into());
            }
            Some(Step::Eof) => Flow::Ended(Ended::Eof),
            Some(Step::Limit) => Flow::Ended(Ended::Limit),
            Some(Step::Blocked(_)) => self.source_blocked()?,
            Some(_) => Flow::Continue,
        };
        Ok(ControlFlow::Break(flow))
    }

    /// Writes once to one sink from the buffer.
    pub(super) fn write(&mut self, index: usize, patience: Patience) -> Result<Retry, Failure> {
        let branch = &mut self.branches[index];
        let is_written_to = branch.is_live()
            && branch.way == Strategy::Buffered
            && !self.hub.buffered_at(branch.delivered).is_empty();
        if !is_written_to || !branch.is_ready(&self.context.kernel, patience) {
            return Ok(Retry::WhenReady);
        }
        match branch.write(&self.context.kernel, &self.hub, patience) {
            Ok(Step::Moved(_)) => Ok(Retry::WhenReady),
            Ok(step) => self.not_served(index, step, patience),
            Err(fault) => self.failed(index, fault),
        }
    }

    /// What to make of a sink that took nothing.
    fn not_served(
        &mut self,
        index: usize,
        step: Step,
        patience: Patience,
    ) -> Result<Retry, Failure> {
        match step {
            Step::Blocked(_) => {
                match self.branches[index].blocked(&self.context.kernel, patience) {
                    Ok(()) => Ok(Retry::WhenReady),
                    Err(fault) => self.failed(index, fault),
                }
            }
            Step::Unsupported(cause) => self.write_to(index, cause).map(|()| Retry::AtOnce),
            _ => Ok(Retry::AtOnce),
        }
    }

    /// Serves a sink from the buffer from now on, because it takes no splice. What it has been given
    /// it has accepted.
    fn write_to(&mut self, index: usize, cause: Cause) -> Result<(), Failure> {
        if self.context.options.strategy == Some(Strategy::Tee) {
            return Err(refused(Strategy::Tee, cause));
        }
        for branch in &mut self.branches {
            if branch.way == Strategy::Splice && branch.is_live() {
                Branch::be_shared_with(branch);
            }
        }
        let branch = &mut self.branches[index];
        branch.way = Strategy::Buffered;
        // It is empty, and others may need what it takes of the user's budget.
        branch.route.pipe = None;
        let mut live = self.branches.iter().filter(|branch| branch.is_live());
        if live.all(|branch| branch.way == Strategy::Buffered) {
            let attempt = self.context.attempt(Strategy::Tee);
            attempt.cause.get_or_insert(cause);
        }
        Ok(())
    }
}
