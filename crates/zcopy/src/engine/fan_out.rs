//! The engine for one source and several sinks: every byte leaves the source once and reaches all.
//!
//! Bytes wait in the [`backlog`], a private pipe, until every sink has them; each sink has a
//! [`sink_state`]. `tee(2)` duplicates the pipe's contents for the sinks that splice, without
//! copying; when all others have them, the *consuming sink*, one of these, splices the bytes out of
//! the backlog. If some sinks must be written to (appending files, terminals), a read into one
//! buffer empties the backlog instead, and they are written from it. The engine works in rounds: it
//! takes more from the source when every sink has accepted the bytes of this round.
//!
//! `tee` and `splice` fill a slot of a sink's pipe with each message, however short; writes fill the
//! slots whole. A round of few bytes out of a pipe or stream socket is therefore written to all
//! sinks.

#[cfg(feature = "tokio")]
use std::iter;

use crate::call_error::{CallError, Cause};
use crate::context::Context;
use crate::copy_state::{CopyState, Inspector};
use crate::drop_window::DropWindow;
use crate::endpoint::{Available, Endpoint};
use crate::engine::{Callbacks, Engine, Flow, SinkPolicy};
use crate::error::{Error, RunError};
use crate::fd_info::Kind;
use crate::options::Options;
use crate::plan::{self, Plan};
use crate::progress::Progress;
use crate::records::Records;
use crate::report::{Ended, Report};
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::Kernel;
use crate::wait::Wait;
use backlog::{Backlog, Storage};
use sink_state::SinkState;
use wait::AwaitedEnds;

mod assignment;
mod backlog;
mod finish;
mod round;
mod sink_state;
mod wait;

#[cfg(test)]
mod tests;

/// The most bytes in one round. A pipe of an unprivileged user holds no more in full pages; slots
/// of several pages may hold more. A larger `buffer_size` raises the bound.
const MAX_ROUND: u64 = 4 << 20;

/// A round of this many bytes or fewer is written to all sinks: a quarter of what a pipe of 16 slots
/// holds. Longer rounds cost less if they are shared, and rarely consist of short messages.
const SHORT_ROUND: u64 = 16 << 10;

/// A transfer to several sinks.
pub(crate) struct FanOutEngine<'a, K> {
    context: Context<'a, K>,
    policy: SinkPolicy<'a>,
    inspect: Option<Inspector<'a>>,
    records: Records,
    backlog: Backlog<'a>,
    sinks: Vec<SinkState<'a>>,
    /// The index of the sink that was detached last; 0 if none was.
    detached_last: usize,
    source_drop_window: Option<DropWindow>,
    /// The position in the stream where this round begins.
    round_start: u64,
    /// The position where it ends, once known.
    round_end: Option<u64>,
    /// The position where it must end at the latest.
    round_limit: u64,
    /// Whether the bytes of this round are written to all sinks, though they could be shared.
    writes_to_all: bool,
    /// Whether `give_lone_reader_a_pipe` has still to decide.
    may_add_pipe: bool,
    /// Whether the source may be a FIFO that no process has opened for writing, which does not poll
    /// as ended.
    may_lack_writer: bool,
    /// What the engine waits for.
    awaited_ends: Option<AwaitedEnds>,
}

impl<'a, K: Kernel> FanOutEngine<'a, K> {
    /// Returns an engine that moves bytes from `source` to all `sinks`. The first is the caller's
    /// main sink.
    pub(crate) fn new(
        kernel: K,
        source: Endpoint<'a>,
        sinks: Vec<Endpoint<'a>>,
        plan: &Plan,
        options: Options,
        callbacks: Callbacks<'a>,
        policy: SinkPolicy<'a>,
    ) -> Self {
        // One read must not exceed one message, if a sink takes messages.
        let written_to = sinks
            .iter()
            .find(|sink| sink.info.kind == Kind::Datagram)
            .unwrap_or(&sinks[0]);
        // The clone stands for all sinks that are written to; no call uses it.
        let mut written_to = written_to.clone();
        written_to.info.direct = sinks.iter().any(|sink| sink.info.direct);
        let storage = match plan.strategy() {
            Strategy::Tee => Storage::Pipe,
            _ => Storage::Buffer,
        };
        let from = source.info;
        let has_pipe = sinks.iter().any(|sink| sink.info.kind == Kind::Pipe);
        let sink_states: Vec<_> = sinks
            .into_iter()
            .zip(plan.sink_candidates())
            .map(|(mut sink, plan)| {
                if options.strategy.is_some() {
                    sink.ignore_free_space();
                }
                let drop_window = DropWindow::new(&sink, options.cache);
                // The sink is served from the backlog, so its clone of the source is never read.
                let state = CopyState::new(source.clone(), sink).with_sizes(&options);
                let mut sink_state = SinkState::new(state, plan.strategy(), drop_window);
                if options.watch_readers {
                    sink_state.watch(&kernel);
                }
                sink_state
            })
            .collect();
        let total = plan::remaining(&from, &options);
        let mut engine = Self {
            policy,
            inspect: callbacks.inspect,
            records: Records::new(&kernel, options.records),
            source_drop_window: DropWindow::new(&source, options.cache),
            backlog: Backlog {
                storage,
                state: CopyState {
                    searches_for_packets: from.kind == Kind::Pipe && has_pipe,
                    ..CopyState::new(source, written_to).with_sizes(&options)
                },
                head_position: 0,
                surplus: Vec::new(),
            },
            sinks: sink_states,
            detached_last: 0,
            round_start: 0,
            round_end: None,
            round_limit: 0,
            writes_to_all: false,
            may_add_pipe: storage != Storage::Buffer && from.kind == Kind::Pipe,
            may_lack_writer: from.kind == Kind::Pipe && from.nonblocking,
            awaited_ends: None,
            context: Context::new(kernel, options, plan.strategy(), callbacks.observer, total),
        };
        for sink in &mut engine.sinks {
            engine.context.poll_if_timed(&mut sink.state.sink);
        }
        engine
    }

    /// Returns whether the call that finds the end of the source is all that is left. It moves
    /// nothing, and need not wait for the rate.
    fn source_has_ended(&mut self) -> bool {
        let source = &self.backlog.state.source;
        source.available(&self.context.kernel) == Available::End && self.context.pacer.allow_probe()
    }

    /// Begins a round, unless the limit or the rate forbids it or the source is not ready: then it
    /// returns the flow that says so. The rate comes last, so that no fan-out waits for its source
    /// with tokens.
    fn begin(&mut self, has_waited_for_source: bool) -> Result<Option<Flow>, RunError> {
        let until_limit = self.context.until_limit(self.backlog.head_position);
        if until_limit == 0 {
            return Ok(Some(Flow::Ended(Ended::Limit)));
        }
        if !has_waited_for_source && let Some(flow) = self.prepare_round()? {
            return Ok(Some(flow));
        }
        let max_round = MAX_ROUND.max(self.backlog.state.private_pipe_size as u64);
        let wanted = until_limit.min(self.context.max_step).min(max_round);
        // Nothing is in flight between two rounds.
        let allowed = match self.context.pacer.take(&self.context.kernel, wanted, 0) {
            Ok(allowed) => allowed,
            Err(_) if self.source_has_ended() => 1,
            Err(time) if self.context.options.watch_readers => {
                self.poll_readers()?;
                let time = time.min(wait::RECHECK_INTERVAL);
                return Ok(Some(Flow::Wait(Wait::Time(time))));
            }
            Err(time) => return Ok(Some(Flow::Wait(Wait::Time(time)))),
        };
        self.round_limit = self.backlog.head_position + allowed;
        self.round_start = self.backlog.head_position;
        self.round_end = None;
        Ok(None)
    }

    /// Chooses and enlarges pipes before a round. Returns a wait if the source is not ready.
    fn prepare_round(&mut self) -> Result<Option<Flow>, RunError> {
        if self.backlog.storage == Storage::Pipe
            && self.backlog.state.source.cursor_was_moved()
            && self.context.options.strategy.is_none()
        {
            self.give_up_tee(Some(Cause::SharedCursor))?;
        }
        self.begin_sharing_or_writing();
        self.give_lone_reader_a_pipe();
        let source = &self.backlog.state.source;
        let moved = self.backlog.head_position;
        let should_grow = self.context.should_grow_pipes(moved, source);
        if should_grow {
            let may_be_short = self.context.may_take_short_steps();
            let (kernel, backlog) = (&self.context.kernel, &mut self.backlog);
            let may_enlarge = backlog.state.may_enlarge_source(kernel, may_be_short);
            let source = may_enlarge.then_some(&self.backlog.state.source);
            let sinks = self.sinks.iter().map(|sink| &sink.state.sink);
            self.context.grow_pipes(source, sinks);
        }
        Ok(self.wait_for_source())
    }

    /// Makes the calls that every sink needs next, and counts calls and bytes.
    fn take_step(&mut self) -> Result<Flow, RunError> {
        let calls = self.calls();
        let by = self.strategy();
        let flow = self.serve();
        self.credit_calls(by, self.calls() - calls);
        self.count();
        flow
    }

    /// Returns the strategy that distributes the bytes of this round: tee, or one buffer.
    fn strategy(&self) -> Strategy {
        match self.backlog.storage {
            Storage::Pipe if !self.writes_to_all => Strategy::Tee,
            _ => Strategy::Buffered,
        }
    }

    fn credit_calls(&mut self, by: Strategy, calls: u64) {
        if calls > 0 {
            self.context.attempt(by).calls += calls;
        }
    }

    /// Credits the strategy in use with the bytes that every sink has accepted, and pays the rate
    /// limiter for them.
    fn count(&mut self) {
        self.context.bytes = self.delivered();
        let attempts = self.context.attempts.iter();
        let counted: u64 = attempts.map(|attempt| attempt.bytes).sum();
        let n = self.context.bytes - counted;
        if n > 0 {
            let by = self.strategy();
            self.context.attempt(by).bytes += n;
            self.context.pacer.spend(n);
        }
    }

    /// Syncs what the sinks have accepted, drops its pages from the cache, gives back to the rate
    /// limiter what this round does not need, and calls the inspector.
    fn process_accepted(&mut self) -> Result<(), RunError> {
        if let Some(drop_window) = &mut self.source_drop_window {
            drop_window.advance_read(&self.context.kernel, &self.backlog.state.source);
        }
        let when = self.context.options.sync_data;
        for index in 0..self.sinks.len() {
            if let Err(error) = self.sinks[index].sync(&self.context.kernel, when) {
                self.sink_failed(index, error)?;
            }
        }
        self.count();
        let end = self.round_end.unwrap_or(self.round_limit);
        let until_end = end.saturating_sub(self.context.bytes);
        self.context.pacer.give_back(until_end);
        self.drop_delivered();
        Ok(())
    }

    /// Drops bytes from the buffer that all sinks have, counts their records, and inspects them.
    fn drop_delivered(&mut self) {
        let buffered = self
            .live()
            .filter(|(_, sink)| sink.served_by == Strategy::Buffered);
        let written = buffered.map(|(_, sink)| sink.delivered).min();
        // If no sink is written to, every sink may still lack bytes in the buffer: a splice
        // reported the end too early, and a read found them.
        let given = self.live().map(|(_, sink)| sink.given).min();
        // Without a live sink, all bytes that the one detached last lacks are returned.
        let position = written.or(given).unwrap_or_else(|| self.delivered());
        let released = self.backlog.drop_before(position);
        self.records.accepted(released);
        if let Some(inspect) = self.inspect.as_mut().filter(|_| !released.is_empty()) {
            inspect(released);
        }
    }

    /// Detaches a sink that failed, or fails the transfer, as the policy decides.
    fn sink_failed(&mut self, index: usize, error: CallError) -> Result<(), RunError> {
        let delivered = self.delivered();
        let sink = &mut self.sinks[index];
        if sink.is_detached {
            return Ok(());
        }
        if sink.failed_with.is_some() {
            // This sink has failed the transfer already, and only the first failure counts.
            return Err(error.into());
        }
        sink.failed_with = Some(error.cause);
        sink.state.sink.release(&self.context.kernel);
        let report = sink.report(index, delivered);
        if !self.policy.detaches(&report) {
            return Err(error.into());
        }
        sink.is_detached = true;
        self.detached_last = index;
        // Without a live sink, the bytes in this one's pipe may have to be returned.
        if self.has_live_sink() {
            self.sinks[index].state.pipe = None;
        }
        Ok(())
    }

    /// Returns the sinks that have not been detached, with their indices.
    fn live(&self) -> impl DoubleEndedIterator<Item = (usize, &SinkState<'a>)> {
        let sinks = self.sinks.iter().enumerate();
        sinks.filter(|(_, sink)| sink.is_live())
    }

    fn has_live_sink(&self) -> bool {
        self.live().next().is_some()
    }

    /// Returns whether every sink has every byte that has left the source, and the backlog is
    /// empty, also of bytes that no sink wants any more.
    fn all_caught_up(&self) -> bool {
        let position = self.backlog.head_position;
        let has_all = |sink: &SinkState<'_>| sink.delivered == position && sink.given == position;
        self.backlog.state.in_flight() == 0 && self.live().all(|(_, sink)| has_all(sink))
    }

    /// Returns the number of bytes that every live sink has accepted; without one, those of
    /// the sink detached last.
    fn delivered(&self) -> u64 {
        let least = self.live().map(|(_, sink)| sink.delivered).min();
        least.unwrap_or(self.sinks[self.detached_last].delivered)
    }

    fn calls(&self) -> u64 {
        let sinks = self.sinks.iter().map(|sink| sink.state.calls);
        self.backlog.state.calls + sinks.sum::<u64>()
    }
}

impl<'a, K: Kernel> Engine<'a> for FanOutEngine<'a, K> {
    type Kernel = K;

    fn context(&mut self) -> &mut Context<'a, K> {
        &mut self.context
    }

    fn progress(&self, blocked: Option<Side>) -> Progress {
        let records = self.records.count();
        Progress {
            // If the slowest sink has failed since the last step, this number has grown.
            bytes: self.delivered(),
            ..self.context.progress(self.strategy(), records, blocked)
        }
    }

    #[cfg(feature = "tokio")]
    fn for_each_endpoint(&mut self, visit: &mut dyn FnMut(Side, &mut Endpoint<'a>)) {
        let sinks = self.sinks.iter_mut().map(|sink| &mut sink.state);
        for state in iter::once(&mut self.backlog.state).chain(sinks) {
            visit(Side::Source, &mut state.source);
            visit(Side::Sink, &mut state.sink);
        }
    }

    fn advance(&mut self) -> Result<Flow, RunError> {
        let has_waited_for_source = match self.awaited_ends.take() {
            Some(ends) => {
                if let Some(wait) = self.finish_wait(ends)? {
                    return Ok(Flow::Wait(wait));
                }
                ends == AwaitedEnds::Source
            }
            None => false,
        };
        if !self.has_live_sink() {
            return Ok(Flow::Ended(Ended::NoSink));
        }
        if self.all_caught_up() {
            if let Some(flow) = self.begin(has_waited_for_source)? {
                return Ok(flow);
            }
            // This comes after the wait, during which readers may close.
            self.choose_consuming_sink();
            self.write_to_all();
        }
        let flow = self.take_step()?;
        if flow == Flow::Observe {
            self.process_accepted()?;
        } else if self.all_caught_up() {
            // The source was ready, and gave nothing.
            self.context.pacer.give_back(0);
        }
        Ok(flow)
    }

    fn fill_reserved(&mut self) -> Result<(), RunError> {
        self.fill_reserved_ranges()
    }

    fn finish(&mut self, outcome: Result<Ended, RunError>) -> Result<Report, Error> {
        // This comes first because it may still detach a sink.
        let cleanup = self.finish_sinks(&outcome);
        self.count();
        self.drop_delivered();
        let undelivered = self.return_undelivered(self.context.bytes);
        self.finish_source();
        let source = self.backlog.state.source.info;
        let spliced = self.sinks.iter().filter(|sink| sink.has_shared_pages);
        let shared_pages = spliced
            .map(|sink| plan::page_sharing(Strategy::Splice, &source, &sink.state.sink.info))
            .max()
            .unwrap_or_default();
        let sinks = self.sinks.iter().enumerate();
        let delivered = self.context.bytes;
        let sinks = sinks.map(|(index, sink)| sink.report(index, delivered));
        self.context.finish(outcome, cleanup, |report| Report {
            records: self.records.count(),
            sinks: sinks.collect(),
            shared_pages,
            undelivered: undelivered.into(),
            ..report
        })
    }
}
