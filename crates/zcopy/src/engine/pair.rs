//! The loop for one source and one sink: step, fall back, limit, observe, stop.
//!
//! [`PairEngine::advance`](Engine::advance) takes one step and never waits; a driver waits where it could not go on.

use crate::bad_blocks::{BadBlocks, Pieces};
use crate::buffer;
use crate::call_error::CallError;
use crate::context::Context;
use crate::copy_state::{CopyState, StepBudget};
use crate::drop_window::DropBehind;
use crate::endpoint::Endpoint;
use crate::engine::{Callbacks, Engine, Flow};
use crate::error::{Error, RunError};
use crate::fast_path::Partial;
use crate::fd_info::Kind;
use crate::options::{Cache, Options, Sparse};
use crate::plan::{self, Plan};
use crate::progress::Progress;
use crate::rate::RateLimiter;
use crate::records::Records;
use crate::report::{Ended, Report};
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
    state: CopyState<'a>,
    /// The plan's strategy whose turn it is.
    strategy: Strategy,
    phase: Phase,
    extents: Option<Extents>,
    drop_behind: Option<DropBehind>,
    /// Whether the source has given bytes, or said that it has none for now.
    source_has_answered: bool,
    /// Whether the wait that must precede the next step is over.
    has_waited: bool,
    /// What ended the fast path, to be taken for the answer of the first step.
    first_step: Option<Result<Step, CallError>>,
}

/// How far a transfer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// By this strategy, which needs no preparation, until the stream turns out to be more than a few
    /// messages.
    WarmUp(Strategy),
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
        source: Endpoint<'a>,
        mut sink: Endpoint<'a>,
        plan: Plan,
        options: Options,
        callbacks: Callbacks<'a>,
    ) -> Self {
        if plan::requested(&options).is_some() {
            sink.ignore_room();
        }
        let remaining = plan::remaining(&source.info, &options);
        let is_worth_searching = match sink.info.kind {
            Kind::Regular => true,
            // Only an inspector sees what goes there.
            Kind::Null => options.inspected && remaining.is_some_and(|left| left > plan::SMALL),
            _ => false,
        };
        let is_searched = source.info.kind == Kind::Regular
            && is_worth_searching
            && source.position().is_some()
            && options.sparse.searches(&source.info);
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
        let can_seek = sink.position().is_some() && !sink.info.append;
        let holes = match sink.info.kind {
            Kind::Regular if can_seek => Holes::new(&sink.info, zero_blocks, shown_to),
            Kind::Null => Holes::discarded(),
            _ => Holes::default(),
        };
        let pieces = if source.info.direct || sink.info.direct {
            Pieces::Whole
        } else {
            Pieces::Divisible
        };
        let bad = BadBlocks::new(options.skip_errors, callbacks.on_skip, pieces);
        Self {
            strategy: plan.strategy(),
            phase: plan.opening().map_or(Phase::Main, Phase::WarmUp),
            extents: (is_searched && !counts_records).then(|| Extents::new(shown_to)),
            drop_behind: (options.cache == Cache::DropBehind)
                .then(|| DropBehind::new(&source, &sink)),
            source_has_answered: false,
            has_waited: false,
            first_step: None,
            state: CopyState {
                holes,
                bad,
                records: Records::new(&kernel, options.records),
                inspect: callbacks.inspect,
                ..CopyState::new(source, sink)
                    .sized(&options)
                    .with_block_batch()
            },
            context: Context::new(
                kernel,
                options,
                plan.strategy(),
                callbacks.observer,
                remaining,
            ),
            plan,
        }
    }

    /// Paces the transfer by the caller's rate limiter, if there is one.
    pub(crate) fn keep(&mut self, rate_limiter: Option<&'a RateLimiter>) {
        self.context.pacer.keep(&self.context.kernel, rate_limiter);
    }

    /// Goes on from where the fast path has ended.
    pub(crate) fn go_on(&mut self, partial: Partial) {
        if partial.calls > 0 {
            self.context.attempts.push(partial.attempt());
            self.context.bytes = partial.bytes;
            // Past the cache blocks are read to where the engine's own buffer has them, unless something waits in the other.
            if !partial.buffer.is_empty() || !self.state.source.info.direct {
                self.state.buffer = partial.buffer;
            }
            self.first_step = partial.first_step;
        }
    }

    /// Takes one step of at most `max` bytes, and changes to another strategy if that one cannot go
    /// on.
    fn take_step(&mut self, max: u64, remaining: u64) -> Result<Flow, RunError> {
        let strategy = self.current();
        let is_requested = self.context.requested().is_some();
        if strategy.facts().reserves_ranges && !is_requested && self.shares_a_cursor() {
            return Ok(self.fall_back_to_buffered(strategy));
        }
        if self.is_at_known_end(strategy) && (!is_requested || self.peek() == Ok(0)) {
            return self.end_of_file(strategy);
        }
        let budget = StepBudget {
            max: self.bounded(max),
            remaining,
            blocking: self.context.blocking(),
        };
        let calls = self.state.calls;
        let step = self.step(strategy, budget);
        let calls = self.state.calls - calls;
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
                self.context.spurious_wakeups = 0;
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
            Err(error) => {
                let has_moved = attempt.has_moved();
                if has_moved || is_requested || self.is_final(strategy, &error) {
                    if self.skip_bad_block(strategy, &error) {
                        return Ok(Flow::NextStrategy);
                    }
                    self.context.attempt(strategy).cause = Some(error.cause);
                    return Err(self.resolve_side(error).into());
                }
                self.fall_back(strategy, error.cause)
            }
        }
    }

    /// Whether a file's size says that nothing is left. Then a read confirms it, and no offload is
    /// asked: `splice` and `sendfile` at the end of a file would still blame a pipe whose reader,
    /// having got everything, has gone.
    fn is_at_known_end(&self, strategy: Strategy) -> bool {
        strategy.facts().is_offload
            && self.state.source.info.is_seekable()
            && self.context.total == Some(self.context.bytes)
            && self.state.in_flight() == 0
    }

    /// Whether somebody else moves the cursor of an end that this transfer goes by.
    fn shares_a_cursor(&self) -> bool {
        self.state.source.is_shared() || self.state.sink.is_shared()
    }

    /// The strategy for this step: the plan's, unless read and write have to finish what another
    /// left in flight, or open the transfer.
    fn current(&self) -> Strategy {
        let has_residue = if self.strategy.facts().has_private_pipe {
            !self.state.buffer.is_empty()
        } else {
            self.strategy.facts().is_offload && self.state.in_flight() > 0
        };
        match self.phase {
            _ if has_residue => Strategy::Buffered,
            Phase::WarmUp(strategy) => strategy,
            Phase::Confirming => Strategy::Buffered,
            Phase::Main => self.strategy,
        }
    }

    /// Accounts for bytes that the sink has accepted.
    fn moved(&mut self, n: u64) -> Result<(), RunError> {
        self.context.bytes += n;
        self.state.bad.delivered = self.context.bytes;
        if n > 0 {
            self.context.spurious_wakeups = 0;
            self.source_has_answered = true;
            self.sync_data()?;
            if self.phase == Phase::Confirming {
                self.phase = Phase::Main;
            }
        }
        let came_at_once = n >= plan::SMALL || self.state.buffer.was_filled();
        let is_bulk = self.context.bytes >= plan::OPENING && came_at_once;
        if is_bulk && self.state.in_flight() == 0 {
            self.phase = Phase::Main;
        }
        if let Some(drop_behind) = &mut self.drop_behind {
            let (source, sink) = (&self.state.source, &self.state.sink);
            drop_behind
                .advance(&self.context.kernel, source, sink)
                .map_err(|errno| CallError::new("sync_file_range", Side::Sink, errno))?;
        }
        Ok(())
    }

    pub(super) fn sync_data(&self) -> Result<(), CallError> {
        let sink = &self.state.sink;
        sink.sync_data(&self.context.kernel, self.context.options.sync_data)
    }

    /// Enlarges the caller's pipes, once, when the transfer is known to be long.
    fn grow_pipes(&mut self) {
        // A limit says how much may come, and only a size how much will.
        let is_sized = self.state.source.info.size.is_some();
        let will_be_long = is_sized && self.context.total.is_some_and(|n| n > plan::SMALL);
        let is_long = self.context.bytes >= plan::SMALL || will_be_long;
        let (source, sink) = (&self.state.source, &self.state.sink);
        self.context
            .grow_pipes(is_long, Some(source), std::iter::once(sink));
    }

    /// What may be asked of the coming step so that it is prompt.
    fn bounded(&self, max: u64) -> u64 {
        let sink = &self.state.sink;
        let is_confirming = self.strategy == Strategy::Buffered
            && self.context.bytes > 0
            && self.state.in_flight() == 0;
        let max = max.min(sink.prompt_len(&self.context.kernel, self.context.blocking()));
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
        let records = self.state.records.count();
        self.context.progress(self.current(), records, blocked)
    }

    fn advance(&mut self) -> Result<Flow, RunError> {
        self.context.end_wait()?;
        let left = self.context.left(self.context.bytes);
        if left == 0 || self.state.records.is_at_limit() {
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
    /// file, so that no call waits for somebody else. A record that has to wait for its rate limit is not waited for.
    fn fill_reserved(&mut self) -> Result<(), RunError> {
        let reserved = self.state.sink.reserved();
        let end = self.context.bytes + reserved.min(self.state.in_flight());
        while self.context.bytes < end && !self.state.wants_more()
            || self.state.sink.reserved() > 0 && !self.state.sink.release(&self.context.kernel)
        {
            let state = |engine: &Self| (engine.state.calls, engine.strategy, engine.phase);
            let before = state(self);
            match self.take_step(reserved, reserved)? {
                Flow::Continue => {}
                Flow::NextStrategy if before != state(self) => {}
                Flow::NextStrategy | Flow::Wait(_) | Flow::Ended(_) => break,
            }
        }
        Ok(())
    }

    fn finish(&mut self, outcome: Result<Ended, RunError>) -> Result<Report, Error> {
        self.conclude(outcome)
    }
}
