//! The engine that writes a repeated pattern to a sink.

use std::borrow::Cow;

use crate::buffer;
use crate::call_error::{CallError, Cause};
use crate::context::{Context, requested_failed};
use crate::endpoint::Endpoint;
use crate::engine::{Engine, Flow};
use crate::error::{Error, RunError};
use crate::fd_info::Kind;
use crate::options::Options;
use crate::plan::{self, Plan};
use crate::progress::{Observer, Progress};
use crate::reopened::Reopened;
use crate::report::{Ended, Report};
use crate::side::Side;
use crate::step::{Step, buffered};
use crate::strategy::Strategy;
use crate::sys::{Blocking, Errno, Kernel};
use crate::wait::Wait;
use pattern_pipe::PatternPipe;

mod pattern_pipe;

#[cfg(test)]
mod tests;

/// The number of bytes that an empty pipe accepts before a reader drains it. A longer write would
/// wait for the reader page by page, while the pattern pipe could already be filled.
const EMPTY_PIPE_CAPACITY: usize = 64 << 10;

/// A repetition in progress.
///
/// The number of bytes that the sink has accepted determines which byte of the pattern comes next.
/// So a strategy can take over from another at any byte.
pub(crate) struct RepeatEngine<'a, K> {
    context: Context<'a, K>,
    plan: Plan,
    sink: Endpoint<'a>,
    reopened: Reopened,
    pattern_len: usize,
    /// Whole repetitions of the pattern, or the pattern itself if it is long.
    repetitions: Cow<'a, [u8]>,
    pattern_pipe: Option<PatternPipe>,
    /// The plan's strategy for the steps after the warm-up.
    strategy: Strategy,
    /// Whether the wait that must precede the next step is over.
    has_waited: bool,
}

impl<'a, K: Kernel> RepeatEngine<'a, K> {
    /// Creates the engine that writes `pattern`, which is not empty, to `sink` as `plan` says.
    pub(crate) fn new(
        kernel: K,
        pattern: &'a [u8],
        mut sink: Endpoint<'a>,
        plan: Plan,
        options: Options,
        observer: Option<Observer<'a>>,
    ) -> Self {
        if options.strategy.is_some() {
            sink.ignore_free_space();
        }
        Self {
            reopened: Reopened::default(),
            pattern_len: pattern.len(),
            repetitions: repeated(pattern, options.limit),
            pattern_pipe: None,
            strategy: plan.strategy(),
            has_waited: false,
            sink,
            context: Context::new(kernel, options, plan.strategy(), observer, options.limit),
            plan,
        }
    }

    /// Moves at most `max` bytes in one step. Falls back to writing if the kernel refuses tee(2).
    #[inline]
    fn take_step(&mut self, max: u64, blocking: Blocking) -> Result<Flow, RunError> {
        let strategy = self.current();
        let mut calls = 0;
        let step = if strategy == Strategy::Tee {
            self.tee(max, blocking, &mut calls)
        } else {
            calls = 1;
            self.write(max, blocking)
        };
        if let Ok(Step::Moved(n)) = step {
            self.context.credit(strategy, calls, n);
            self.context.bytes += n;
            self.context.times_blocked = 0;
            self.context.pacer.spend(n);
            return Ok(Flow::Observe);
        }
        self.context.credit(strategy, calls, 0);
        match step {
            Ok(Step::Unsupported(cause)) => self.fall_back(cause)?,
            Ok(Step::Blocked(_)) => return self.blocked(),
            Ok(_) => {}
            Err(error) => {
                let errno = error.cause.errno();
                let is_final = errno.is_none_or(|errno| strategy.is_fatal(errno));
                if is_final || self.context.options.strategy.is_some() {
                    self.context.attempt(strategy).cause = Some(error.cause);
                    return Err(error.into());
                }
                self.fall_back(error.cause)?;
            }
        }
        Ok(Flow::Observe)
    }

    /// Returns the strategy for the next step. Where the plan says tee(2), the engine writes during
    /// the warm-up, and until the sink has whole repetitions, because tee(2) starts with a whole
    /// one.
    fn current(&self) -> Strategy {
        let pattern_pipe = self.pattern_pipe.as_ref();
        match self.strategy {
            Strategy::Tee if pattern_pipe.is_some_and(PatternPipe::is_under_way) => Strategy::Tee,
            Strategy::Tee if !self.is_warming_up() && self.pattern_index() == 0 => Strategy::Tee,
            _ => Strategy::Buffered,
        }
    }

    /// Whether the transfer is too short so far for the pattern pipe to repay its cost.
    fn is_warming_up(&self) -> bool {
        self.context.bytes < plan::WARM_UP && self.plan.warm_up().is_some()
    }

    /// The index of the next byte in the pattern.
    fn pattern_index(&self) -> usize {
        (self.context.bytes % self.pattern_len as u64) as usize
    }

    /// Shares the pages of the pattern pipe with the sink. Adds to `calls`.
    fn tee(&mut self, max: u64, blocking: Blocking, calls: &mut u64) -> Result<Step, CallError> {
        let pattern_pipe = match &mut self.pattern_pipe {
            Some(pattern_pipe) => pattern_pipe,
            none => {
                match PatternPipe::fill(&self.context.kernel, &self.repetitions, self.pattern_len) {
                    Ok(pattern_pipe) => none.insert(pattern_pipe),
                    Err(errno) => return Ok(Step::Unsupported(errno.into())),
                }
            }
        };
        let max = max.min(self.sink.nonblocking_len(&self.context.kernel, blocking));
        pattern_pipe.splice_to(&self.context.kernel, &mut self.sink, max, blocking, calls)
    }

    /// Writes from the buffer, beginning at the next byte of the pattern.
    #[inline]
    fn write(&mut self, max: u64, blocking: Blocking) -> Result<Step, CallError> {
        let is_warming_up = self.is_warming_up();
        let index = self.pattern_index();
        let end = match self.strategy {
            Strategy::Tee if !is_warming_up => self.pattern_len,
            _ => self.repetitions.len(),
        };
        let longest = match self.sink.info.kind {
            Kind::Datagram => buffer::SAFE_DATAGRAM,
            _ if is_warming_up => EMPTY_PIPE_CAPACITY,
            _ => buffer::DEFAULT_CAPACITY,
        };
        let len = ((end - index).min(longest) as u64).min(max) as usize;
        let pending = &self.repetitions[index..index + len];
        let (sink, reopened) = (&mut self.sink, &mut self.reopened);
        buffered::write_once(&self.context.kernel, sink, reopened, pending, blocking)
    }

    /// Continues by writing. Drops the private pipe, whose bytes the buffer holds as well.
    fn fall_back(&mut self, cause: Cause) -> Result<(), RunError> {
        self.context.attempt(Strategy::Tee).cause = Some(cause);
        if self.context.options.strategy.is_some() {
            return Err(requested_failed(Strategy::Tee, cause));
        }
        self.pattern_pipe = None;
        self.strategy = Strategy::Buffered;
        self.context.times_blocked = 0;
        Ok(())
    }

    /// Returns the wait for the sink, which was not ready in the last step.
    fn blocked(&mut self) -> Result<Flow, RunError> {
        self.context.check_time_out(Side::Sink, &mut self.sink)?;
        let delay = self.context.count_blocked();
        let is_last = self.current() != Strategy::Tee || self.context.options.strategy.is_some();
        if self.context.has_blocked_too_often() && !is_last {
            self.fall_back(Errno::AGAIN.into())?;
            return Ok(Flow::Advance);
        }
        self.context.await_ready(Side::Sink, &mut self.sink);
        Ok(Flow::Wait(Wait::after_blocked(delay)))
    }
}

impl<'a, K: Kernel> Engine<'a> for RepeatEngine<'a, K> {
    type Kernel = K;

    fn context(&mut self) -> &mut Context<'a, K> {
        &mut self.context
    }

    fn progress(&self, blocked: Option<Side>) -> Progress {
        self.context.progress(self.current(), 0, blocked)
    }

    #[inline]
    fn advance(&mut self) -> Result<Flow, RunError> {
        self.context.end_wait()?;
        let until_limit = self.context.until_limit(self.context.bytes);
        if until_limit == 0 {
            return Ok(Flow::Ended(Ended::Limit));
        }
        if self.context.bytes > plan::GROW_PIPES_ABOVE {
            let sink = std::iter::once(&self.sink);
            self.context.grow_pipes(None, sink);
        }
        let blocking = self.context.blocking();
        let waits = blocking == Blocking::Nonblocking && self.sink.info.can_block();
        if waits && !self.has_waited {
            self.context.await_ready(Side::Sink, &mut self.sink);
            self.has_waited = true;
            return Ok(Flow::Wait(Wait::before_call()));
        }
        self.has_waited = false;
        let Context { pacer, kernel, .. } = &mut self.context;
        let max = match pacer.take(kernel, until_limit, 0) {
            Ok(max) => max,
            Err(time) => return Ok(Flow::Wait(Wait::Time(time))),
        };
        let flow = self.take_step(max, blocking);
        self.context.pacer.give_back(0);
        flow
    }

    /// Fills the range that is reserved in the sink, before a repetition stops. A signal may have cut
    /// the last call short. If another process has moved the cursor since, the rest of the range
    /// would stay a gap. The sink is a file, so no call waits for another process.
    fn fill_reserved(&mut self) -> Result<(), RunError> {
        while self.sink.reserved() > 0 && !self.sink.release(&self.context.kernel) {
            match self.take_step(self.sink.reserved(), Blocking::MaySleep)? {
                Flow::Observe | Flow::Advance => {}
                Flow::Wait(_) | Flow::Ended(_) => break,
            }
        }
        Ok(())
    }

    fn finish(&mut self, outcome: Result<Ended, RunError>) -> Result<Report, Error> {
        let released = self.sink.release_or_gap(&self.context.kernel);
        let closed = self.reopened.close(&self.context.kernel);
        let cleanup = released.and(closed);
        self.context.finish(outcome, cleanup, |report| report)
    }
}

/// Returns the repetitions for one buffer: no more than `limit` needs, and at least one. One, too, if
/// memory for more is refused.
fn repeated(pattern: &[u8], limit: Option<u64>) -> Cow<'_, [u8]> {
    let wanted = limit.map_or(buffer::DEFAULT_CAPACITY, |limit| {
        limit.min(buffer::DEFAULT_CAPACITY as u64) as usize
    });
    let times = wanted
        .next_multiple_of(pattern.len())
        .min(buffer::DEFAULT_CAPACITY)
        / pattern.len();
    let mut bytes = Vec::new();
    if times <= 1 || bytes.try_reserve_exact(times * pattern.len()).is_err() {
        return Cow::Borrowed(pattern);
    }
    for _ in 0..times {
        bytes.extend_from_slice(pattern);
    }
    Cow::Owned(bytes)
}
