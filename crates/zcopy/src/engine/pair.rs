//! The engine for one source and one sink.
//!
//! [`PairEngine::advance`](Engine::advance) checks the limit and the rate, then takes one step by
//! the current strategy. A step that moves bytes is counted; one that blocks becomes a
//! [`Flow::Wait`]; one that the kernel refuses makes the engine fall back to the next strategy of
//! the plan.

use crate::bad_blocks::{BadBlocks, Pieces};
use crate::buffer;
use crate::call_error::{CallError, Cause};
use crate::context::Context;
use crate::copy_state::{CopyState, StepBudget};
use crate::drop_window::DropWindow;
use crate::endpoint::Endpoint;
use crate::engine::{Callbacks, Engine, Flow};
use crate::error::{Error, RunError};
use crate::fast_path::Partial;
use crate::fd_info::Kind;
use crate::options::{Options, Sparse, SyncData};
use crate::plan::{self, Plan};
use crate::progress::Progress;
use crate::rate::RateLimiter;
use crate::records::Records;
use crate::report::{Ended, Report};
use crate::side::Side;
use crate::sparse::{Extents, Holes, ShownTo, ZeroBlocks};
use crate::step::{self, Step};
use crate::strategy::Strategy;
use crate::sys::Kernel;

mod fall_back;
mod finish;
mod holes;
mod prefix;
mod relayed;
mod wait;
mod warm_up;

#[cfg(test)]
mod tests;

/// A transfer from one source to one sink.
pub(crate) struct PairEngine<'a, K> {
    context: Context<'a, K>,
    plan: Plan,
    state: CopyState<'a>,
    /// The strategy that the plan chose, or the fallback that has taken over.
    /// [`Self::current_strategy`] returns the strategy of the next step.
    main_strategy: Strategy,
    phase: Phase,
    extents: Option<Extents>,
    source_drop_window: Option<DropWindow>,
    sink_drop_window: Option<DropWindow>,
    /// Whether the wait before the next step is over.
    has_waited: bool,
    /// The number of bytes of the caller's that precede those of the source.
    prefix_len: u64,
    /// Whether the buffer has the caller's memory, or more than it may have, until the prefix has
    /// been written.
    frees_memory_behind_prefix: bool,
    /// In a relay: the number of bytes after which this direction last held no pipe.
    rested_at: u64,
    /// In a relay: whether the last step of the main phase moved few bytes.
    last_was_short: bool,
    /// The result of the last call of the fast path, which replaces the first step.
    first_step: Option<Result<Step, CallError>>,
}

/// The phase of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Moves the first bytes by this strategy, which needs no setup, until the stream turns out to
    /// be more than a few messages.
    WarmUp(Strategy),
    /// Moves bytes by [`PairEngine::main_strategy`].
    Main,
    /// Reads once and writes what came, because a splice moved nothing out of a stream. Either the
    /// stream has ended, or it is at its urgent mark: `tcp_splice_read` returns 0 there, however
    /// many bytes follow, and only a read gets past it.
    Confirming,
}

impl<'a, K: Kernel> PairEngine<'a, K> {
    /// Returns an engine that moves bytes from `source` to `sink` by `plan`.
    pub(crate) fn new(
        kernel: K,
        mut source: Endpoint<'a>,
        mut sink: Endpoint<'a>,
        plan: Plan,
        options: Options,
        callbacks: Callbacks<'a>,
    ) -> Self {
        if plan::requested(&options).is_some() {
            sink.ignore_free_space();
        }
        if options.stepped {
            // A call in non-blocking mode needs no poll before it.
            source.is_blocking(&kernel);
            sink.is_blocking(&kernel);
        }
        let remaining = plan::remaining(&source.info, &options);
        let is_worth_searching = match sink.info.kind {
            Kind::Regular => true,
            // Only an inspector sees bytes that go to `/dev/null`.
            Kind::Null => {
                options.inspected && remaining.is_some_and(|left| left > plan::OFFLOAD_ABOVE)
            }
            _ => false,
        };
        let is_searched = source.info.kind == Kind::Regular
            && is_worth_searching
            && source.position().is_some()
            && options.sparse.searches(&source.info);
        // Records are counted in the buffer, where a hole shows as zeros.
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
        let phase = warm_up::first_phase(&kernel, &plan, &source, &sink, &options);
        let mut engine = Self {
            main_strategy: plan.strategy(),
            phase,
            extents: (is_searched && !counts_records).then(|| Extents::new(shown_to)),
            source_drop_window: DropWindow::new(&source, options.cache),
            sink_drop_window: DropWindow::new(&sink, options.cache),
            has_waited: false,
            prefix_len: 0,
            frees_memory_behind_prefix: false,
            rested_at: 0,
            last_was_short: false,
            first_step: None,
            state: CopyState {
                holes,
                bad,
                records: Records::new(&kernel, options.records),
                inspect: callbacks.inspect,
                ..CopyState::new(source, sink)
                    .with_sizes(&options)
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
        };
        engine.context.poll_if_timed(&mut engine.state.sink);
        engine
    }

    /// Uses the caller's rate limiter of records, if there is one.
    pub(crate) fn share_record_rate_limiter(&mut self, rate_limiter: Option<RateLimiter>) {
        let kernel = &self.context.kernel;
        self.state.records.share_rate_limiter(kernel, rate_limiter);
    }

    /// Continues where the fast path ended.
    pub(crate) fn resume(&mut self, partial: Partial) {
        self.context.started = partial.started;
        if partial.calls > 0 {
            self.context.attempts.push(partial.attempt());
            self.context.bytes = partial.bytes;
            // Direct reads need the engine's own aligned buffer, unless the other one holds bytes.
            if !partial.buffer.is_empty() || !self.state.source.info.direct {
                self.state.buffer = partial.buffer;
            }
            self.first_step = partial.first_step;
        }
    }

    /// Takes one step of at most `max` bytes, and falls back if the strategy cannot go on.
    fn take_step(&mut self, max: u64, until_limit: u64) -> Result<Flow, RunError> {
        let strategy = self.current_strategy();
        let is_requested = self.context.requested().is_some();
        if strategy.facts().reserves_ranges && !is_requested && self.shares_a_cursor() {
            return Ok(self.fall_back_to_buffered(strategy, Cause::SharedCursor));
        }
        if self.is_at_known_end(strategy) {
            if !is_requested {
                return self.end_of_file(strategy);
            }
            // This read proves the end. A second one could find what others append meanwhile.
            if self.peek() == Ok(0) {
                self.release_at_end()?;
                return Ok(Flow::Ended(Ended::Eof));
            }
        }
        let budget = StepBudget {
            max: self.step_len(max),
            until_limit,
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
                self.count_moved(n)
            }
            // The rate limit does not count holes, because they move nothing.
            Ok(Step::Hole(n)) => {
                attempt.bytes += n;
                attempt.hole_bytes += n;
                self.count_moved(n)
            }
            Ok(Step::Filled) => {
                self.context.times_blocked = 0;
                self.state.source.note_writer();
                Ok(Flow::Advance)
            }
            Ok(Step::Repeat) => Ok(Flow::Observe),
            Ok(Step::Blocked(side)) => {
                if side != Some(Side::Sink) {
                    self.state.source.note_writer();
                }
                self.blocked(side)
            }
            Ok(Step::MessageTooLong) => Ok(Flow::Ended(Ended::Limit)),
            Ok(Step::Eof) => {
                self.credit_confirmation();
                self.end_of_file(strategy)
            }
            Ok(Step::Unsupported(cause)) => self.fall_back(strategy, cause),
            Err(error) => {
                let has_moved = attempt.has_moved();
                if has_moved || is_requested || self.is_final(strategy, &error) {
                    if self.skip_bad_block(strategy, &error) {
                        return Ok(Flow::Advance);
                    }
                    self.context.attempt(strategy).cause = Some(error.cause);
                    return Err(self.resolve_side(error).into());
                }
                self.fall_back(strategy, error.cause)
            }
        }
    }

    /// Takes one step by the strategy, or over a hole.
    fn step(&mut self, strategy: Strategy, mut budget: StepBudget) -> Result<Step, CallError> {
        if let Some(step) = self.first_step.take() {
            return step;
        }
        if let Some(step) = self.skip_hole(strategy, &mut budget)? {
            return Ok(step);
        }
        step::step(strategy, &self.context.kernel, &mut self.state, &budget)
    }

    /// Returns whether the file's size says that nothing is left. A read then confirms the end and
    /// no offload is called: `splice` and `sendfile` at the end of a file would still fail with
    /// `EPIPE` when the reader of a pipe has received everything and closed it.
    fn is_at_known_end(&self, strategy: Strategy) -> bool {
        strategy.facts().is_offload
            && self.state.source.info.is_seekable()
            && self.context.total == Some(self.context.bytes)
            && self.state.in_flight() == 0
    }

    /// Returns whether another process or thread moves a cursor that this transfer uses.
    fn shares_a_cursor(&self) -> bool {
        self.state.source.cursor_was_moved() || self.state.sink.cursor_was_moved()
    }

    /// Returns the strategy for this step: read and write for bytes that another strategy left in
    /// flight and to confirm an end; the warm-up's strategy during the warm-up; otherwise
    /// [`Self::main_strategy`].
    fn current_strategy(&self) -> Strategy {
        let has_residue = if self.main_strategy.facts().has_private_pipe {
            !self.state.buffer.is_empty()
        } else {
            self.main_strategy.facts().is_offload && self.state.in_flight() > 0
        };
        match self.phase {
            _ if has_residue => Strategy::Buffered,
            Phase::WarmUp(strategy) => strategy,
            Phase::Confirming => Strategy::Buffered,
            Phase::Main => self.main_strategy,
        }
    }

    /// Counts bytes that the sink has accepted.
    fn count_moved(&mut self, n: u64) -> Result<Flow, RunError> {
        self.context.bytes += n;
        self.count_prefix();
        if n > 0 {
            self.context.times_blocked = 0;
            self.state.source.note_writer();
            self.sync_data(SyncData::EachStep)?;
            if self.phase == Phase::Confirming {
                self.phase = Phase::Main;
            }
        }
        if self.phase != Phase::Main && self.has_warmed_up(n) {
            self.phase = Phase::Main;
        }
        if self.context.options.relayed {
            self.adapt_pipe(n);
        }
        if let Some(drop_window) = &mut self.source_drop_window {
            drop_window.advance_read(&self.context.kernel, &self.state.source);
        }
        if let Some(drop_window) = &mut self.sink_drop_window {
            drop_window.advance_written(&self.context.kernel, &self.state.sink)?;
        }
        Ok(Flow::Observe)
    }

    /// Syncs the sink, if the caller wants it at this moment.
    pub(super) fn sync_data(&self, moment: SyncData) -> Result<(), CallError> {
        if self.context.options.sync_data != moment {
            return Ok(());
        }
        self.state.sink.sync_data(&self.context.kernel)
    }

    /// Releases the range that is reserved in the sink, if no bytes before `end` wait for it.
    /// Returns true if the range must be filled: bytes wait for it, or it cannot be released
    /// because another process or thread has moved the cursor.
    fn must_fill_after_release(&mut self, end: u64) -> bool {
        let has_bytes = self.context.bytes < end && !self.state.needs_input();
        let sink = &mut self.state.sink;
        has_bytes || sink.reserved() > 0 && !sink.release(&self.context.kernel)
    }

    /// Returns how much of `max` the coming step may ask for without sleeping or reading too much.
    fn step_len(&self, max: u64) -> u64 {
        let context = &self.context;
        let sink = &self.state.sink;
        let max = max.min(sink.nonblocking_len(&context.kernel, context.blocking()));
        let mut attempts = context.attempts.iter();
        // The first read after an offload most often finds the end, and needs no large buffer.
        // Out of a pipe it may need room for all that the pipe holds.
        let is_first_read = self.main_strategy == Strategy::Buffered
            && self.state.source.info.kind != Kind::Pipe
            && context.bytes > 0
            && self.state.in_flight() == 0
            && attempts.all(|attempt| attempt.strategy != Strategy::Buffered);
        if is_first_read {
            return max.min(buffer::MIN_CAPACITY as u64);
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
        self.context
            .progress(self.current_strategy(), records, blocked)
    }

    #[cfg(feature = "tokio")]
    fn for_each_endpoint(&mut self, visit: &mut dyn FnMut(Side, &mut Endpoint<'a>)) {
        visit(Side::Source, &mut self.state.source);
        visit(Side::Sink, &mut self.state.sink);
    }

    fn advance(&mut self) -> Result<Flow, RunError> {
        self.context.end_wait()?;
        let until_limit = self.context.until_limit(self.context.bytes);
        if until_limit == 0 || self.state.records.is_at_limit() {
            return Ok(Flow::Ended(Ended::Limit));
        }
        // This comes before the wait because a pipe that grows may have room at once.
        let (source, sink) = (&self.state.source, &self.state.sink);
        let has_pipe = source.info.kind == Kind::Pipe || sink.info.kind == Kind::Pipe;
        let should_grow = has_pipe && self.context.should_grow_pipes(self.context.bytes, source);
        if should_grow {
            // A splice to the sink divides packets without loss.
            let may_be_short =
                self.context.may_take_short_steps() && self.main_strategy != Strategy::Splice;
            let kernel = &self.context.kernel;
            let may_enlarge = self.state.may_enlarge_source(kernel, may_be_short);
            let source = may_enlarge.then_some(&self.state.source);
            let sink = std::iter::once(&self.state.sink);
            self.context.grow_pipes(source, sink);
        }
        if !self.has_waited
            && let Some(wait) = self.wait_before_step()
        {
            self.has_waited = true;
            return Ok(Flow::Wait(wait));
        }
        self.has_waited = false;
        // This comes after the wait, so that no transfer waits for its ends with tokens.
        let max = match self.allowance(until_limit) {
            Ok(max) => max,
            Err(wait) => return Ok(Flow::Wait(wait)),
        };
        let is_relayed = self.context.options.relayed;
        if is_relayed {
            self.borrow_memory();
        }
        let flow = self.take_step(max, until_limit);
        if is_relayed {
            self.return_memory();
        }
        self.context.pacer.give_back(self.state.in_flight());
        self.state.records.give_back();
        flow
    }

    /// Fills the range that is reserved in the sink, before a transfer stops. A signal may have cut
    /// the last call short. If another process has moved the cursor since, the rest of the range
    /// would stay a gap, and bytes taken from a pipe would be lost.
    ///
    /// If nothing has left the source, `finish` releases both ranges, unless the sink's has to be
    /// filled. The sink is a file, so no call waits for another process. A record that its rate
    /// limit holds back is not waited for.
    fn fill_reserved(&mut self) -> Result<(), RunError> {
        let reserved = self.state.sink.reserved();
        let end = self.context.bytes + reserved.min(self.state.in_flight());
        while self.must_fill_after_release(end) {
            let state = |engine: &Self| (engine.state.calls, engine.main_strategy, engine.phase);
            let before = state(self);
            match self.take_step(reserved, reserved)? {
                Flow::Observe => {}
                Flow::Advance if before != state(self) => {}
                Flow::Advance | Flow::Wait(_) | Flow::Ended(_) => break,
            }
        }
        Ok(())
    }

    fn rest(&mut self) {
        self.give_back_pipe();
    }

    fn finish(&mut self, outcome: Result<Ended, RunError>) -> Result<Report, Error> {
        let mut undelivered = self.state.return_in_flight(&self.context.kernel);
        if self.context.options.relayed {
            Self::free_memory();
        }
        // The pipe holds references to pages of the source's page cache, which `finish_cache`
        // drops.
        self.state.pipe = None;
        let finished_holes = self.finish_holes(&mut undelivered);
        self.state.inspect_zeros(u64::MAX);
        // Where no call has failed, the source has become shorter since the range was reserved.
        let released = self.state.sink.release_or_gap(&self.context.kernel);
        let closed = self.state.sink_reopened.close(&self.context.kernel);
        let cleanup = finished_holes
            .and(released)
            .and_then(|()| match outcome {
                Ok(_) => self.sync_data(SyncData::AtEnd),
                Err(_) => Ok(()),
            })
            .and_then(|()| self.finish_cache())
            .and(closed);
        let (source, sink) = (&self.state.source.info, &self.state.sink.info);
        let attempts = self.context.attempts.iter();
        let shared_pages = attempts
            .filter(|attempt| attempt.bytes > 0)
            .map(|attempt| plan::page_sharing(attempt.strategy, source, sink))
            .max()
            .unwrap_or_default();
        // When a hole was taken back, the part of it that had been skipped is unknown.
        let skipped_bytes = self.state.bad.bytes().min(self.context.bytes);
        self.context.finish(outcome, cleanup, |report| Report {
            records: self.state.records.count(),
            hole_bytes: self.state.holes.bytes,
            skipped_bytes,
            shared_pages,
            undelivered: undelivered.into(),
            ..report
        })
    }
}
