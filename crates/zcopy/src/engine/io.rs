//! The engine whose one end is a descriptor, and whose other end is a reader or writer of the
//! caller's.
//!
//! It takes the steps of [`buffered`](crate::step::buffered), of which one half is a call of the
//! reader or writer. The bytes wait in [`CopyState::buffer`] as in a transfer between descriptors,
//! so that the rules for blocks, messages and packets apply to the end that is a descriptor. The
//! other endpoint of the [`CopyState`] is a placeholder, which no call uses.

use std::io;

use crate::call_error::{CallError, Cause};
use crate::context::{Context, RETRY_DELAY};
use crate::copy_state::{CopyState, StepBudget};
use crate::endpoint::Endpoint;
use crate::engine::{Callbacks, Engine, Flow};
use crate::error::{Error, RunError};
use crate::options::Options;
use crate::plan;
use crate::progress::Progress;
use crate::records::Records;
use crate::report::{Ended, Report};
use crate::side::Side;
use crate::step::Step;
use crate::strategy::Strategy;
use crate::sys::{Blocking, Kernel};
use crate::wait::Wait;

mod callers_end;

#[cfg(test)]
mod tests;

pub(crate) use callers_end::{CallersEnd, CallersReader, CallersWriter};

/// A transfer between a descriptor and a reader or writer of the caller's.
pub(crate) struct IoEngine<'a, K, End> {
    context: Context<'a, K>,
    state: CopyState<'a>,
    end: End,
    /// The error that the reader or writer has returned.
    failed: Option<io::Error>,
    /// Whether the wait before the next step is over.
    has_waited: bool,
}

impl<'a, K: Kernel, End: CallersEnd> IoEngine<'a, K, End> {
    /// Returns an engine that moves bytes from `source` to `sink`, one of which is a placeholder
    /// for `end`.
    pub(crate) fn new(
        kernel: K,
        source: Endpoint<'a>,
        sink: Endpoint<'a>,
        end: End,
        options: Options,
        callbacks: Callbacks<'a>,
    ) -> Self {
        let total = plan::remaining(&source.info, &options);
        let mut engine = Self {
            state: CopyState {
                records: Records::new(&kernel, options.records),
                inspect: callbacks.inspect,
                ..CopyState::new(source, sink)
                    .with_sizes(&options)
                    .with_block_batch()
            },
            context: Context::new(
                kernel,
                options,
                Strategy::Buffered,
                callbacks.observer,
                total,
            ),
            end,
            failed: None,
            has_waited: false,
        };
        engine.context.poll_if_timed(&mut engine.state.sink);
        engine
    }

    /// Takes one step that reads at most `max` bytes.
    fn take_step(&mut self, max: u64, until_limit: u64) -> Result<Flow, RunError> {
        let budget = StepBudget {
            max,
            until_limit,
            blocking: self.context.blocking(),
        };
        let calls = self.state.calls;
        let (kernel, state) = (&self.context.kernel, &mut self.state);
        let step = self.end.step(kernel, state, &budget, &mut self.failed);
        let calls = self.state.calls - calls;
        self.context.credit(Strategy::Buffered, calls, 0);
        match step? {
            Step::Moved(n) => {
                self.context.credit(Strategy::Buffered, 0, n);
                self.context.bytes += n;
                self.context.pacer.spend(n);
                self.note_answer();
                Ok(Flow::Observe)
            }
            Step::Filled => {
                self.note_answer();
                Ok(Flow::Advance)
            }
            Step::Blocked(side) => self.blocked(side),
            Step::Eof => Ok(Flow::Ended(Ended::Eof)),
            Step::MessageTooLong => Ok(Flow::Ended(Ended::Limit)),
            Step::Repeat | Step::Hole(_) | Step::Unsupported(_) => Ok(Flow::Observe),
        }
    }

    /// Notes that the source has given bytes, or that the sink has accepted some.
    fn note_answer(&mut self) {
        self.context.times_blocked = 0;
        self.state.source.note_writer();
    }

    /// If calls may not sleep, returns a wait for the descriptor that the coming step needs.
    /// Otherwise a descriptor in blocking mode blocks in the call itself. No poll tells about a
    /// reader or writer.
    fn wait_before_step(&mut self) -> Option<Wait> {
        if self.context.blocking() == Blocking::MaySleep {
            return None;
        }
        let CopyState { source, sink, .. } = &self.state;
        let needs_input = self.state.needs_input();
        if needs_input && source.info.can_starve() && !source.may_lack_writer() {
            self.context
                .await_ready(Side::Source, &mut self.state.source);
        } else if !needs_input && sink.info.can_block() {
            self.context.await_ready(Side::Sink, &mut self.state.sink);
        }
        let must_wait = !self.context.awaited.is_empty();
        must_wait.then(Wait::before_call)
    }

    /// Returns the wait for the side that blocked a step.
    fn blocked(&mut self, side: Option<Side>) -> Result<Flow, RunError> {
        let (side, endpoint) = match side {
            Some(Side::Source) => (Side::Source, &mut self.state.source),
            Some(Side::Sink) => (Side::Sink, &mut self.state.sink),
            // The private pipe, which holds bytes.
            _ => return Ok(Flow::Wait(Wait::Time(RETRY_DELAY))),
        };
        endpoint.note_writer();
        self.context.check_time_out(side, endpoint)?;
        let delay = self.context.count_blocked();
        self.context.await_ready(side, endpoint);
        Ok(Flow::Wait(Wait::after_blocked(delay)))
    }

    /// Flushes the writer, unless it has failed. After another failure, an error is of no interest.
    fn flush(&mut self, outcome: &Result<Ended, RunError>) -> Result<(), CallError> {
        match self.end.flush() {
            Err(error) if outcome.is_ok() => {
                let cause = Cause::of(&error);
                self.failed = Some(error);
                Err(CallError::new("flush", Side::Sink, cause))
            }
            _ => Ok(()),
        }
    }
}

impl<'a, K: Kernel, End: CallersEnd> Engine<'a> for IoEngine<'a, K, End> {
    type Kernel = K;

    fn context(&mut self) -> &mut Context<'a, K> {
        &mut self.context
    }

    fn progress(&self, blocked: Option<Side>) -> Progress {
        let records = self.state.records.count();
        self.context.progress(Strategy::Buffered, records, blocked)
    }

    fn advance(&mut self) -> Result<Flow, RunError> {
        self.context.end_wait()?;
        let until_limit = self.context.until_limit(self.context.bytes);
        if until_limit == 0 {
            return Ok(Flow::Ended(Ended::Limit));
        }
        if !self.has_waited
            && let Some(wait) = self.wait_before_step()
        {
            self.has_waited = true;
            return Ok(Flow::Wait(wait));
        }
        self.has_waited = false;
        let mut max = until_limit;
        if self.state.needs_input() {
            // The rate limit has already allowed bytes in flight.
            let in_flight = self.state.in_flight();
            let source = &mut self.state.source;
            match self.context.take_tokens(source, until_limit, in_flight) {
                Ok(taken) => max = taken,
                Err(wait) => return Ok(Flow::Wait(wait)),
            }
        }
        let flow = self.take_step(max, until_limit);
        self.context.pacer.give_back(self.state.in_flight());
        flow
    }

    fn finish(&mut self, outcome: Result<Ended, RunError>) -> Result<Report, Error> {
        let undelivered = self.state.return_in_flight(&self.context.kernel);
        self.state.pipe = None;
        let flushed = self.flush(&outcome);
        self.state.sink.release(&self.context.kernel);
        let closed = self.state.sink_reopened.close(&self.context.kernel);
        let cleanup = flushed.and(closed);
        let failed = outcome.as_ref().err().map(|error| error.cause);
        let not_cleaned_up = cleanup.as_ref().err().map(|error| error.cause);
        self.context.attempt(Strategy::Buffered).cause = failed.or(not_cleaned_up);
        let result = self.context.finish(outcome, cleanup, |report| Report {
            records: self.state.records.count(),
            undelivered: undelivered.into(),
            ..report
        });
        result.map_err(|error| match self.failed.take() {
            Some(cause) => error.with_cause(cause),
            None => error,
        })
    }
}
