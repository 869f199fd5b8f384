//! The loop for one source and one sink: step, fall back, limit, observe, stop.
//!
//! [`Engine::advance`] takes one step and says what came of it; it never sleeps. [`Engine::run`] is
//! the driver that blocks: it waits (`wait.rs`) where a step could not go on, and tidies up at the
//! end (`finish.rs`). A driver that awaits instead of sleeping would call the same `advance`.

use std::ops::ControlFlow;

use crate::bad_places::{BadPlaces, OnSkip};
use crate::buffer;
use crate::cache::DropBehind;
use crate::clock::Clock;
use crate::end::End;
use crate::endpoint::Kind;
use crate::error::{Error, Failure};
use crate::fault::{Fault, Side};
use crate::options::{Cache, Options, Sparse};
use crate::pace::Pace;
use crate::pipe;
use crate::plan::{self, Plan};
use crate::progress::{Observer, Progress};
use crate::records::Records;
use crate::report::{Attempt, Ended, Report};
use crate::route::{Ask, Inspector, Route};
use crate::sparse::{Extents, Holes};
use crate::strategy::{Step, Strategy};
use crate::sys::{Kernel, Patience};

mod at_once;
mod fall_back;
mod finish;
mod prepare;
mod short;
mod step;
mod wait;

pub(crate) use prepare::{examine, open_again, prepare, prepare_examined};
pub(crate) use short::{Begun, Legacy, Way, go_short, look};
pub(crate) use wait::{LULL, timed_out, wait_for};

#[cfg(test)]
mod tests;

/// So many times in a row may a side poll as ready and then block all the same, before the strategy
/// is taken to be at fault. Somebody else at the same pipe can cause a few.
pub(crate) const FALSE_STARTS: u32 = 8;

/// A transfer under way.
pub(crate) struct Engine<'a, K> {
    kernel: K,
    options: Options,
    plan: Plan,
    route: Route<'a>,
    /// The plan's strategy whose turn it is.
    strategy: Strategy,
    phase: Phase,
    extents: Option<Extents>,
    drop_behind: Option<DropBehind>,
    clock: Clock<'a>,
    /// What an observer is told to expect.
    total: Option<u64>,
    /// Bytes that the sink has accepted.
    bytes: u64,
    attempts: Vec<Attempt>,
    grown_source: Option<usize>,
    grown_sink: Option<usize>,
    may_grow: bool,
    false_starts: u32,
    /// Whether the source has given bytes, or said that it has none for now.
    source_has_answered: bool,
    /// What ended the short way, to be taken for the answer of the first step.
    answer: Option<Result<Step, Fault>>,
}

/// Those who look on.
#[derive(Default)]
pub(crate) struct Audience<'a> {
    pub(crate) observer: Option<Observer<'a>>,
    pub(crate) inspect: Option<Inspector<'a>>,
    pub(crate) on_skip: Option<OnSkip<'a>>,
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

/// What a step means for the transfer as a whole.
enum Advance {
    /// It goes on; the observer may want to know.
    On,
    /// It goes on by another strategy; nothing moved.
    Again,
    /// It waits for this side.
    Blocked(Side),
    Ended(Ended),
}

impl<'a, K: Kernel> Engine<'a, K> {
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
        let detect = options.sparse == Sparse::Detect || is_searched && counts_records;
        let can_seek = sink.position().is_some() && !sink.endpoint.append;
        let holes = match sink.endpoint.kind {
            Kind::Regular if can_seek => Holes::new(&sink.endpoint, detect, options.inspected),
            Kind::Null => Holes::discarded(),
            _ => Holes::default(),
        };
        let only_whole = source.endpoint.direct || sink.endpoint.direct;
        let bad = BadPlaces::new(options.skip_errors, audience.on_skip, only_whole);
        Self {
            strategy: plan.strategy(),
            phase: plan.opening().map_or(Phase::Main, Phase::Opening),
            extents: (is_searched && !counts_records).then(|| Extents::new(options.inspected)),
            drop_behind: (options.cache == Cache::DropBehind)
                .then(|| DropBehind::new(&source, &sink)),
            clock: Clock::new(&kernel, &options, audience.observer),
            total: remaining,
            bytes: 0,
            attempts: Vec::with_capacity(Strategy::ALL.len()),
            grown_source: None,
            grown_sink: None,
            may_grow: options.grow_pipes,
            false_starts: 0,
            source_has_answered: false,
            answer: None,
            route: Route {
                holes,
                bad,
                records: Records::new(&kernel, options.records),
                inspect: audience.inspect,
                ..Route::new(source, sink).sized(&options).gathering()
            },
            kernel,
            options,
            plan,
        }
    }

    /// Has it keep the caller's pace, if there is one.
    pub(crate) fn keeping(mut self, pace: Option<&'a Pace>) -> Self {
        self.clock.keep(&self.kernel, pace);
        self
    }

    /// Has it go on from where the short way has ended.
    pub(crate) fn going_on(mut self, begun: Begun) -> Self {
        if begun.calls > 0 {
            self.attempts.push(begun.attempt());
            self.bytes = begun.bytes;
            // Past the cache blocks are read to where the engine's own buffer has them, unless something waits in the other.
            if !begun.buffer.is_empty() || !self.route.source.endpoint.direct {
                self.route.buffer = begun.buffer;
            }
            self.answer = begun.answer;
        }
        self
    }

    /// Moves everything, sleeping where the descriptors make it sleep.
    pub(crate) fn run(mut self) -> Result<Report, Error> {
        let mut outcome = self.drive();
        if let Ok(Ended::Stopped) = outcome {
            outcome = self.fill_reserved().map(|()| Ended::Stopped);
        }
        self.finish(outcome)
    }

    fn drive(&mut self) -> Result<Ended, Failure> {
        loop {
            let left = self
                .options
                .limit
                .map_or(u64::MAX, |limit| limit - self.bytes);
            if left == 0 || self.route.records.is_at_limit() {
                return Ok(Ended::Limit);
            }
            let max = match self.allowance(left) {
                ControlFlow::Continue(max) => max,
                ControlFlow::Break(()) => return Ok(Ended::Stopped),
            };
            // Before the wait: a pipe that grows may have room at once.
            self.grow_pipes();
            if self.wait_before_step()?.is_break() {
                return Ok(Ended::Stopped);
            }
            let watched = match self.advance(max, left)? {
                Advance::On => self.observe(None),
                Advance::Again => ControlFlow::Continue(()),
                Advance::Blocked(side) => self.wait_after(side)?,
                Advance::Ended(ended) => return Ok(ended),
            };
            if watched.is_break() {
                return Ok(Ended::Stopped);
            }
        }
    }

    /// Fills what is reserved of a sink before a transfer stops, because a signal has cut the last call short: where others
    /// have moved the cursor since, the range would stay a gap, and bytes of a pipe would have left it in vain.
    ///
    /// If nothing has left the source, `finish` gives both ranges back, unless the sink's has to be filled. The sink is a
    /// file, so that no call waits for somebody else. A record that has to wait for its pace is not waited for.
    fn fill_reserved(&mut self) -> Result<(), Failure> {
        let reserved = self.route.sink.reserved();
        let end = self.bytes + reserved.min(self.route.in_flight());
        while self.bytes < end && !self.route.wants_more()
            || self.route.sink.reserved() > 0 && !self.route.sink.release(&self.kernel)
        {
            let state = |engine: &Self| (engine.route.calls, engine.strategy, engine.phase);
            let before = state(self);
            match self.advance(reserved, reserved)? {
                Advance::On => {}
                Advance::Again if before != state(self) => {}
                Advance::Again | Advance::Blocked(_) | Advance::Ended(_) => break,
            }
        }
        Ok(())
    }

    /// Takes one step of at most `max` bytes, and changes to another strategy if that one cannot go
    /// on.
    fn advance(&mut self, max: u64, remaining: u64) -> Result<Advance, Failure> {
        let strategy = self.current();
        let is_forced = plan::forced(&self.options).is_some();
        if strategy != Strategy::Buffered && !is_forced && self.shares_a_cursor() {
            return Ok(self.fall_back_to_buffered(strategy));
        }
        if self.is_at_known_end(strategy) && (!is_forced || self.peek() == Ok(0)) {
            return self.end_of_file(strategy);
        }
        let ask = Ask {
            max: self.bounded(max),
            remaining,
            patience: self.patience(),
        };
        let calls = self.route.calls;
        let step = self.step(strategy, ask);
        let calls = self.route.calls - calls;
        let attempt = self.attempt(strategy);
        attempt.calls += calls;
        match step {
            Ok(Step::Moved(n)) => {
                attempt.bytes += n;
                self.clock.spend(n);
                self.moved(n)?;
                Ok(Advance::On)
            }
            // No rate holds back what does not move.
            Ok(Step::Hole(n)) => {
                attempt.bytes += n;
                attempt.hole_bytes += n;
                self.moved(n)?;
                Ok(Advance::On)
            }
            Ok(Step::Filled) => {
                self.false_starts = 0;
                self.source_has_answered = true;
                Ok(Advance::Again)
            }
            Ok(Step::Interrupted) => Ok(Advance::On),
            Ok(Step::Blocked(side)) => {
                self.source_has_answered |= side != Side::Sink;
                Ok(Advance::Blocked(side))
            }
            Ok(Step::Limit) => Ok(Advance::Ended(Ended::Limit)),
            Ok(Step::Eof) => {
                self.credit_confirmation();
                self.end_of_file(strategy)
            }
            Ok(Step::Unsupported(cause)) => self.fall_back(strategy, cause),
            Err(fault) => {
                let has_moved = attempt.has_moved();
                if has_moved || is_forced || self.is_final(strategy, &fault) {
                    if self.reads_on(strategy, &fault) {
                        return Ok(Advance::Again);
                    }
                    self.attempt(strategy).cause = Some(fault.cause);
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
        strategy != Strategy::Buffered
            && self.route.source.endpoint.is_seekable()
            && self.total == Some(self.bytes)
            && self.route.in_flight() == 0
    }

    /// Whether somebody else moves the cursor of an end that this transfer goes by.
    fn shares_a_cursor(&self) -> bool {
        self.route.source.is_shared() || self.route.sink.is_shared()
    }

    /// The strategy for this step: the plan's, unless read and write have to finish what another
    /// left in flight, or open the transfer.
    fn current(&self) -> Strategy {
        let has_residue = match self.strategy {
            Strategy::SplicePipe => !self.route.buffer.is_empty(),
            _ => self.route.in_flight() > 0,
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
        self.bytes += n;
        self.route.bad.delivered = self.bytes;
        if n > 0 {
            self.false_starts = 0;
            self.source_has_answered = true;
            self.sync_data()?;
            if self.phase == Phase::Confirming {
                self.phase = Phase::Main;
            }
        }
        let came_at_once = n >= plan::SMALL || self.route.buffer.was_filled();
        let is_bulk = self.bytes >= plan::OPENING && came_at_once;
        if is_bulk && self.route.in_flight() == 0 {
            self.phase = Phase::Main;
        }
        if let Some(drop_behind) = &mut self.drop_behind {
            let (source, sink) = (&self.route.source, &self.route.sink);
            drop_behind
                .advance(&self.kernel, source, sink)
                .map_err(|errno| Fault::new("sync_file_range", Side::Sink, errno))?;
        }
        Ok(())
    }

    pub(super) fn sync_data(&self) -> Result<(), Fault> {
        let sink = &self.route.sink;
        sink.sync_data(&self.kernel, self.options.sync_data)
    }

    /// Enlarges the caller's pipes, once, when the transfer is known to be long.
    ///
    /// Between two pipes it is the number of turns that the processes take which costs, and the
    /// smaller pipe sets it.
    fn grow_pipes(&mut self) {
        // A limit says how much may come, and only a size how much will.
        let is_sized = self.route.source.endpoint.size.is_some();
        let will_be_long = is_sized && self.total.is_some_and(|n| n > plan::SMALL);
        let is_long = self.bytes >= plan::SMALL || will_be_long;
        if !(self.may_grow && is_long) {
            return;
        }
        self.may_grow = false;
        let grow = |end: &End<'_>| match end.endpoint.kind {
            Kind::Pipe => pipe::grow(&self.kernel, end.fd, self.options.pipe_size),
            _ => None,
        };
        (self.grown_source, self.grown_sink) = (grow(&self.route.source), grow(&self.route.sink));
    }

    /// What may be asked of the coming step so that it is prompt.
    fn bounded(&self, max: u64) -> u64 {
        let sink = &self.route.sink;
        let is_confirming =
            self.strategy == Strategy::Buffered && self.bytes > 0 && self.route.in_flight() == 0;
        let max = max.min(sink.prompt_len(&self.kernel, self.patience()));
        if is_confirming
            && self
                .attempts
                .iter()
                .all(|a| a.strategy != Strategy::Buffered)
        {
            return max.min(buffer::LEAST as u64);
        }
        max
    }

    /// Whether calls may sleep: not if somebody wants to be told the time meanwhile.
    fn patience(&self) -> Patience {
        if self.clock.ticks() {
            Patience::NoWait
        } else {
            Patience::Block
        }
    }

    fn observe(&mut self, blocked: Option<Side>) -> ControlFlow<()> {
        let progress = self.progress(blocked);
        self.clock.observe(&self.kernel, &progress)
    }

    fn progress(&self, blocked: Option<Side>) -> Progress {
        Progress {
            bytes: self.bytes,
            records: self.route.records.count(),
            total: self.total,
            strategy: self.current(),
            blocked,
        }
    }

    /// The record of one strategy. There is room for all of them.
    fn attempt(&mut self, strategy: Strategy) -> &mut Attempt {
        let found = self
            .attempts
            .iter()
            .position(|attempt| attempt.strategy == strategy);
        let index = found.unwrap_or_else(|| {
            self.attempts.push(Attempt::new(strategy));
            self.attempts.len() - 1
        });
        &mut self.attempts[index]
    }
}
