//! The loop for one source and one sink: step, fall back, limit, observe, stop.
//!
//! [`PairEngine::advance`](Engine::advance) takes one step and never waits; a driver waits where it could not go on.

use crate::bad_places::{BadPlaces, Pieces};
use crate::buffer;
use crate::cache::DropBehind;
use crate::context::Context;
use crate::end::End;
use crate::endpoint::Kind;
use crate::engine::{Audience, Engine, Flow};
use crate::error::{Error, Failure};
use crate::fast_path::Begun;
use crate::fault::Fault;
use crate::options::{Cache, Options, Sparse};
use crate::pace::Pace;
use crate::plan::{self, Plan};
use crate::progress::Progress;
use crate::records::Records;
use crate::report::{Ended, Report};
use crate::route::{Ask, Route};
use crate::side::Side;
use crate::sparse::{Extents, Holes, ShownTo, ZeroBlocks};
use crate::step::Step;
use crate::strategy::Strategy;
use crate::sys::Kernel;
use crate::wait::Wait;

mod fall_back;
mod finish;
mod step;
mod wait;

#[cfg(test)]
mod tests;

/// A transfer from one source to one sink.
pub(crate) struct PairEngine<'a, K> {
    context: Context<'a, K>,
    plan: Plan,
    route: Route<'a>,
    /// The plan's strategy whose turn it is.
    strategy: Strategy,
    phase: Phase,
    extents: Option<Extents>,
    drop_behind: Option<DropBehind>,
    /// Whether the source has given bytes, or said that it has none for now.
    source_has_answered: bool,
    /// Whether the wait that must precede the next step is over.
    has_waited: bool,
    /// What ended the short way, to be taken for the answer of the first step.
    answer: Option<Result<Step, Fault>>,
}

/// How far a transfer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// By this strategy, which needs no preparation, until the stream turns out to be more than a few
    /// messages.
    Opening(Strategy),
    /// By the plan's.
    Main,
    /// By one read and the writes of what it brings, because a splice moved nothing out of a stream. That is the end of
    /// the stream, or its urgent mark: `tcp_splice_read` answers 0 there, however much lies behind, and only a read gets
    /// past it.
    Confirming,
}

impl<'a, K: Kernel> PairEngine<'a, K> {
    /// A transfer from `source` to `sink` that goes by `plan`.
    pub(crate) fn new(
        kernel: K,
        source: End<'a>,
        mut sink: End<'a>,
        plan: Plan,
        options: Options,
        audience: Audience<'a>,
    ) -> Self {
        if plan::forced(&options).is_some() {
            sink.ignore_room();
        }
        let remaining = plan::remaining(&source.endpoint, &options);
        let is_worth_searching = match sink.endpoint.kind {
            Kind::Regular => true,
            // Only an inspector sees what goes there.
            Kind::Null => options.inspected && remaining.is_some_and(|left| left > plan::SMALL),
            _ => false,
        };
        let is_searched = source.endpoint.kind == Kind::Regular
            && is_worth_searching
            && source.position().is_some()
            && options.sparse.searches(&source.endpoint);
        // Records are counted in the buffer, and there a hole shows as zeros.
        let counts_records = options.records.is_wanted();
        let zero_blocks = match options.sparse {
            Sparse::Detect => ZeroBlocks::Holes,
            _ if is_searched && counts_records => ZeroBlocks::Holes,
            _ => ZeroBlocks::Written,
        };
        let shown_to = if options.inspected {
            ShownTo::Inspector
        } else {
            ShownTo::Nobody
        };
        let can_seek = sink.position().is_some() && !sink.endpoint.append;
        let holes = match sink.endpoint.kind {
            Kind::Regular if can_seek => Holes::new(&sink.endpoint, zero_blocks, shown_to),
            Kind::Null => Holes::discarded(),
            _ => Holes::default(),
        };
        let pieces = if source.endpoint.direct || sink.endpoint.direct {
            Pieces::Whole
        } else {
            Pieces::Divisible
        };
        let bad = BadPlaces::new(options.skip_errors, audience.on_skip, pieces);
        Self {
            strategy: plan.strategy(),
            phase: plan.opening().map_or(Phase::Main, Phase::Opening),
            extents: (is_searched && !counts_records).then(|| Extents::new(shown_to)),
            drop_behind: (options.cache == Cache::DropBehind)
                .then(|| DropBehind::new(&source, &sink)),
            source_has_answered: false,
            has_waited: false,
            answer: None,
            route: Route {
                holes,
                bad,
                records: Records::new(&kernel, options.records),
                inspect: audience.inspect,
                ..Route::new(source, sink).sized(&options).gathering()
            },
            context: Context::new(
                kernel,
                options,
                plan.strategy(),
                audience.observer,
                remaining,
            ),
            plan,
        }
    }

    /// Paces the transfer by the caller's rate limiter, if there is one.
    pub(crate) fn keep(&mut self, pace: Option<&'a Pace>) {
        self.context.pacer.keep(&self.context.kernel, pace);
    }

    /// Goes on from where the short way has ended.
    pub(crate) fn go_on(&mut self, begun: Begun) {
        if begun.calls > 0 {
            self.context.attempts.push(begun.attempt());
            self.context.bytes = begun.bytes;
            // Past the cache blocks are read to where the engine's own buffer has them, unless something waits in the other.
            if !begun.buffer.is_empty() || !self.route.source.endpoint.direct {
                self.route.buffer = begun.buffer;
            }
            self.answer = begun.answer;
        }
    }

    /// Takes one step of at most `max` bytes, and changes to another strategy if that one cannot go
    /// on.
    fn take_step(&mut self, max: u64, remaining: u64) -> Result<Flow, Failure> {
        let strategy = self.current();
        let is_forced = self.context.forced().is_some();
        if strategy.facts().reserves_ranges && !is_forced && self.shares_a_cursor() {
            return Ok(self.fall_back_to_buffered(strategy));
        }
        if self.is_at_known_end(strategy) && (!is_forced || self.peek() == Ok(0)) {
            return self.end_of_file(strategy);
        }
        let ask = Ask {
            max: self.bounded(max),
            remaining,
            patience: self.context.patience(),
        };
        let calls = self.route.calls;
        let step = self.step(strategy, ask);
        let calls = self.route.calls - calls;
        let attempt = self.context.attempt(strategy);
        attempt.calls += calls;
        match step {
            Ok(Step::Moved(n)) => {
                attempt.bytes += n;
                self.context.pacer.spend(n);
                self.moved(n)?;
                Ok(Flow::Continue)
            }
            // No rate holds back what does not move.
            Ok(Step::Hole(n)) => {
                attempt.bytes += n;
                attempt.hole_bytes += n;
                self.moved(n)?;
                Ok(Flow::Continue)
            }
            Ok(Step::Filled) => {
                self.context.false_starts = 0;
                self.source_has_answered = true;
                Ok(Flow::NextStrategy)
            }
            Ok(Step::Interrupted) => Ok(Flow::Continue),
            Ok(Step::Blocked(side)) => {
                self.source_has_answered |= side != Side::Sink;
                self.blocked(side)
            }
            Ok(Step::Limit) => Ok(Flow::Ended(Ended::Limit)),
            Ok(Step::Eof) => {
                self.credit_confirmation();
                self.end_of_file(strategy)
            }
            Ok(Step::Unsupported(cause)) => self.fall_back(strategy, cause),
            Err(fault) => {
                let has_moved = attempt.has_moved();
                if has_moved || is_forced || self.is_final(strategy, &fault) {
                    if self.reads_on(strategy, &fault) {
                        return Ok(Flow::NextStrategy);
                    }
                    self.context.attempt(strategy).cause = Some(fault.cause);
                    return Err(self.with_side(fault).into());
                }
                self.fall_back(strategy, fault.cause)
            }
        }
    }

    /// Whether a file's size says that nothing is left. Then a read confirms it, and no offload is
    /// asked: `splice` and `sendfile` at the end of a file would still blame a pipe whose reader,
    /// having got everything, has gone.
    fn is_at_known_end(&self, strategy: Strategy) -> bool {
        strategy.facts().is_offload
            && self.route.source.endpoint.is_seekable()
            && self.context.total == Some(self.context.bytes)
            && self.route.in_flight() == 0
    }

    /// Whether somebody else moves the cursor of an end that this transfer goes by.
    fn shares_a_cursor(&self) -> bool {
        self.route.source.is_shared() || self.route.sink.is_shared()
    }

    /// The strategy for this step: the plan's, unless read and write have to finish what another
    /// left in flight, or open the transfer.
    fn current(&self) -> Strategy {
        let has_residue = if self.strategy.facts().has_private_pipe {
            !self.route.buffer.is_empty()
        } else {
            self.strategy.facts().is_offload && self.route.in_flight() > 0
        };
        match self.phase {
            _ if has_residue => Strategy::Buffered,
            Phase::Opening(strategy) => strategy,
            Phase::Confirming => Strategy::Buffered,
            Phase::Main => self.strategy,
        }
    }

    /// Accounts for bytes that the sink has accepted.
    fn moved(&mut self, n: u64) -> Result<(), Failure> {
        self.context.bytes += n;
        self.route.bad.delivered = self.context.bytes;
        if n > 0 {
            self.context.false_starts = 0;
            self.source_has_answered = true;
            self.sync_data()?;
            if self.phase == Phase::Confirming {
                self.phase = Phase::Main;
            }
        }
        let came_at_once = n >= plan::SMALL || self.route.buffer.was_filled();
        let is_bulk = self.context.bytes >= plan::OPENING && came_at_once;
        if is_bulk && self.route.in_flight() == 0 {
            self.phase = Phase::Main;
        }
        if let Some(drop_behind) = &mut self.drop_behind {
            let (source, sink) = (&self.route.source, &self.route.sink);
            drop_behind
                .advance(&self.context.kernel, source, sink)
                .map_err(|errno| Fault::new("sync_file_range", Side::Sink, errno))?;
        }
        Ok(())
    }

    pub(super) fn sync_data(&self) -> Result<(), Fault> {
        let sink = &self.route.sink;
        sink.sync_data(&self.context.kernel, self.context.options.sync_data)
    }

    /// Enlarges the caller's pipes, once, when the transfer is known to be long.
    fn grow_pipes(&mut self) {
        // A limit says how much may come, and only a size how much will.
        let is_sized = self.route.source.endpoint.size.is_some();
        let will_be_long = is_sized && self.context.total.is_some_and(|n| n > plan::SMALL);
        let is_long = self.context.bytes >= plan::SMALL || will_be_long;
        let (source, sink) = (&self.route.source, &self.route.sink);
        self.context
            .grow_pipes(is_long, Some(source), std::iter::once(sink));
    }

    /// What may be asked of the coming step so that it is prompt.
    fn bounded(&self, max: u64) -> u64 {
        let sink = &self.route.sink;
        let is_confirming = self.strategy == Strategy::Buffered
            && self.context.bytes > 0
            && self.route.in_flight() == 0;
        let max = max.min(sink.prompt_len(&self.context.kernel, self.context.patience()));
        if is_confirming
            && self
                .context
                .attempts
                .iter()
                .all(|a| a.strategy != Strategy::Buffered)
        {
            return max.min(buffer::LEAST as u64);
        }
        max
    }
}

impl<'a, K: Kernel> Engine<'a> for PairEngine<'a, K> {
    type Kernel = K;

    fn context(&mut self) -> &mut Context<'a, K> {
        &mut self.context
    }

    fn progress(&self, blocked: Option<Side>) -> Progress {
        let records = self.route.records.count();
        self.context.progress(self.current(), records, blocked)
    }

    fn advance(&mut self) -> Result<Flow, Failure> {
        self.context.end_wait()?;
        let left = self.context.left(self.context.bytes);
        if left == 0 || self.route.records.is_at_limit() {
            return Ok(Flow::Ended(Ended::Limit));
        }
        let max = match self.allowance(left) {
            Ok(max) => max,
            Err(time) => {
                self.has_waited = false;
                return Ok(Flow::Wait(Wait::Time(time)));
            }
        };
        // Before the wait: a pipe that grows may have room at once.
        self.grow_pipes();
        if !self.has_waited
            && let Some(wait) = self.wait_before_step()
        {
            self.has_waited = true;
            return Ok(Flow::Wait(wait));
        }
        self.has_waited = false;
        self.take_step(max, left)
    }

    /// Fills what is reserved of a sink before a transfer stops, because a signal has cut the last call short: where others
    /// have moved the cursor since, the range would stay a gap, and bytes of a pipe would have left it in vain.
    ///
    /// If nothing has left the source, `finish` gives both ranges back, unless the sink's has to be filled. The sink is a
    /// file, so that no call waits for somebody else. A record that has to wait for its pace is not waited for.
    fn fill_reserved(&mut self) -> Result<(), Failure> {
        let reserved = self.route.sink.reserved();
        let end = self.context.bytes + reserved.min(self.route.in_flight());
        while self.context.bytes < end && !self.route.wants_more()
            || self.route.sink.reserved() > 0 && !self.route.sink.release(&self.context.kernel)
        {
            let state = |engine: &Self| (engine.route.calls, engine.strategy, engine.phase);
            let before = state(self);
            match self.take_step(reserved, reserved)? {
                Flow::Continue => {}
                Flow::NextStrategy if before != state(self) => {}
                Flow::NextStrategy | Flow::Wait(_) | Flow::Ended(_) => break,
            }
        }
        Ok(())
    }

    fn finish(&mut self, outcome: Result<Ended, Failure>) -> Result<Report, Error> {
        self.conclude(outcome)
    }
}
