//! The loop that repeats a pattern: step, fall back, limit, observe, stop.

use std::borrow::Cow;
use std::ops::ControlFlow;

use super::template::Template;
use crate::buffer;
use crate::clock::Clock;
use crate::detour::Detour;
use crate::end::End;
use crate::endpoint::Kind;
use crate::engine::{self, FALSE_STARTS};
use crate::error::{Error, Failure};
use crate::fault::{Cause, Fault, Side};
use crate::options::Options;
use crate::pipe;
use crate::plan::{self, Plan};
use crate::progress::{Observer, Progress};
use crate::report::{Attempt, Ended, PageSharing, Report, Undelivered};
use crate::strategy::{Step, Strategy, buffered};
use crate::sys::{Errno, Kernel, Patience};

/// What an empty pipe takes at once, before anybody reads. More would wait for the reader, in pages,
/// while the template could be made.
const EMPTY_PIPE: usize = 64 << 10;

/// A repetition under way.
///
/// What the sink gets next is told by `bytes` alone, so that another strategy can go on at any byte.
pub(crate) struct Course<'a, K> {
    kernel: K,
    options: Options,
    plan: Plan,
    clock: Clock<'a>,
    sink: End<'a>,
    detour: Detour,
    pattern_len: usize,
    /// Whole repetitions: the pattern itself, if it is long.
    repetitions: Cow<'a, [u8]>,
    template: Option<Template>,
    /// The plan's strategy whose turn it is, when the opening is over.
    strategy: Strategy,
    /// Bytes that the sink has accepted.
    bytes: u64,
    by_writing: Attempt,
    by_tee: Attempt,
    grown_sink: Option<usize>,
    may_grow: bool,
    false_starts: u32,
}

impl<'a, K: Kernel> Course<'a, K> {
    /// A pattern that is not empty, on its way to `sink` by `plan`.
    pub(crate) fn new(
        kernel: K,
        pattern: &'a [u8],
        mut sink: End<'a>,
        plan: Plan,
        options: Options,
        observer: Option<Observer<'a>>,
    ) -> Self {
        if options.strategy.is_some() {
            sink.ignore_room();
        }
        Self {
            clock: Clock::new(&kernel, &options, observer),
            detour: Detour::default(),
            pattern_len: pattern.len(),
            repetitions: repeated(pattern, options.limit),
            template: None,
            strategy: plan.strategy(),
            bytes: 0,
            by_writing: Attempt::new(Strategy::Buffered),
            by_tee: Attempt::new(Strategy::Tee),
            grown_sink: None,
            may_grow: options.grow_pipes && sink.endpoint.kind == Kind::Pipe,
            sink,
            false_starts: 0,
            kernel,
            options,
            plan,
        }
    }

    /// Repeats it, sleeping where the sink makes it sleep.
    pub(crate) fn run(mut self) -> Result<Report, Error> {
        let outcome = self.drive();
        self.finish(outcome)
    }

    fn drive(&mut self) -> Result<Ended, Failure> {
        loop {
            let limit = self.options.limit;
            let left = limit.map_or(u64::MAX, |limit| limit - self.bytes);
            if left == 0 {
                return Ok(Ended::Limit);
            }
            let waiting = self.progress(Some(Side::Neither));
            let max = match self.clock.allowance(&self.kernel, left, &waiting) {
                ControlFlow::Continue(max) => max,
                ControlFlow::Break(()) => return Ok(Ended::Stopped),
            };
            self.grow_pipe();
            let waits = self.patience() == Patience::NoWait && self.sink.endpoint.can_block();
            if waits && self.wait()?.is_break() {
                return Ok(Ended::Stopped);
            }
            let watched = if let Step::Blocked(_) = self.advance(max)? {
                self.wait_after()?
            } else {
                let progress = self.progress(None);
                self.clock.observe(&self.kernel, &progress)
            };
            if watched.is_break() {
                return Ok(Ended::Stopped);
            }
        }
    }

    /// Takes one step of at most `max` bytes, and changes to writing if that is what is left to do.
    fn advance(&mut self, max: u64) -> Result<Step, Failure> {
        let strategy = self.current();
        let step = match strategy {
            Strategy::Tee => self.tee(max),
            _ => self.write(max),
        };
        match step {
            Ok(Step::Moved(n)) => {
                self.attempt(strategy).bytes += n;
                self.bytes += n;
                self.false_starts = 0;
                self.clock.spend(n);
            }
            Ok(Step::Unsupported(cause)) => self.fall_back(cause)?,
            Ok(_) => {}
            Err(fault) => {
                let errno = fault.cause.errno();
                let is_final = errno.is_none_or(|errno| strategy.fails_for_good(errno));
                if is_final || self.options.strategy.is_some() {
                    self.attempt(strategy).cause = Some(fault.cause);
                    return Err(fault.into());
                }
                self.fall_back(fault.cause)?;
            }
        }
        step.or(Ok(Step::Interrupted))
    }

    /// The strategy for this step: the plan's, but for the opening, and for a repetition that was
    /// broken off and has to be brought to its end first.
    fn current(&self) -> Strategy {
        let is_under_way = self.template.as_ref().is_some_and(Template::is_under_way);
        match self.strategy {
            Strategy::Tee if is_under_way => Strategy::Tee,
            Strategy::Tee if !self.is_opening() && self.phase() == 0 => Strategy::Tee,
            _ => Strategy::Buffered,
        }
    }

    /// Whether the template is still to prove that it is worth being filled.
    fn is_opening(&self) -> bool {
        self.plan.opening().is_some() && self.bytes < plan::OPENING
    }

    /// Where in the pattern the next byte stands.
    fn phase(&self) -> usize {
        (self.bytes % self.pattern_len as u64) as usize
    }

    /// Shares the template's pages with the sink.
    fn tee(&mut self, max: u64) -> Result<Step, Fault> {
        let patience = self.patience();
        let template = match &mut self.template {
            Some(template) => template,
            none => match Template::fill(&self.kernel, &self.repetitions, self.pattern_len) {
                Ok(template) => none.insert(template),
                Err(errno) => return Ok(Step::Unsupported(errno.into())),
            },
        };
        let max = max.min(self.sink.prompt_len(&self.kernel, patience));
        let calls = &mut self.by_tee.calls;
        template.pour(&self.kernel, &mut self.sink, max, (patience, calls))
    }

    /// Writes from the buffer, from where the pattern stands.
    fn write(&mut self, max: u64) -> Result<Step, Fault> {
        let phase = self.phase();
        let end = match self.strategy {
            Strategy::Tee if !self.is_opening() => self.pattern_len,
            _ => self.repetitions.len(),
        };
        let bound = match self.sink.endpoint.kind {
            // 32 KiB fit one datagram of every family.
            Kind::Datagram => buffer::SMALL,
            _ if self.is_opening() => EMPTY_PIPE,
            _ => buffer::FULL,
        };
        let pending = &self.repetitions[phase..end];
        let len = pending.len().min(bound) as u64;
        let pending = &pending[..len.min(max) as usize];
        let patience = self.patience();
        self.by_writing.calls += 1;
        let sink = (&mut self.sink, &mut self.detour);
        buffered::pour(&self.kernel, sink, pending, patience)
    }

    /// Goes on by writing. What is in the private pipe is forgotten: the buffer has it too.
    fn fall_back(&mut self, cause: Cause) -> Result<(), Failure> {
        self.by_tee.cause = Some(cause);
        if self.options.strategy.is_some() {
            let reason = "the kernel refuses it";
            return Err(Failure::unsuitable(Strategy::Tee, reason).caused_by(cause));
        }
        self.template = None;
        self.strategy = Strategy::Buffered;
        self.false_starts = 0;
        Ok(())
    }

    /// Enlarges the caller's pipe, once, when the repetition turns out to be long.
    fn grow_pipe(&mut self) {
        if self.may_grow && self.bytes >= plan::SMALL {
            self.may_grow = false;
            self.grown_sink = pipe::grow(&self.kernel, self.sink.fd, pipe::WANTED);
        }
    }

    /// Waits for a sink that a step found not ready.
    fn wait_after(&mut self) -> Result<ControlFlow<()>, Failure> {
        let patience = self.patience();
        if self.sink.has_timed_out(&self.kernel, Side::Sink, patience) {
            return Err(engine::timed_out(Side::Sink).into());
        }
        self.false_starts += 1;
        if self.false_starts > FALSE_STARTS {
            if self.current() == Strategy::Tee && self.options.strategy.is_none() {
                self.fall_back(Errno::AGAIN.into())?;
                return Ok(ControlFlow::Continue(()));
            }
            let waiting = self.progress(Some(Side::Neither));
            let paused = self.clock.pause(&self.kernel, engine::LULL, &waiting);
            if paused.is_break() {
                return Ok(paused);
            }
        }
        self.wait()
    }

    fn wait(&mut self) -> Result<ControlFlow<()>, Failure> {
        let progress = self.progress(None);
        let ends = &mut [(Side::Sink, &mut self.sink)];
        engine::wait_for(&self.kernel, &mut self.clock, ends, progress)
    }

    /// Whether calls may sleep: not if somebody wants to be told the time meanwhile.
    fn patience(&self) -> Patience {
        if self.clock.ticks() {
            Patience::NoWait
        } else {
            Patience::Block
        }
    }

    fn progress(&self, blocked: Option<Side>) -> Progress {
        Progress {
            bytes: self.bytes,
            records: 0,
            total: self.options.limit,
            strategy: self.current(),
            blocked,
        }
    }

    fn attempt(&mut self, strategy: Strategy) -> &mut Attempt {
        match strategy {
            Strategy::Tee => &mut self.by_tee,
            _ => &mut self.by_writing,
        }
    }

    /// Says what was done.
    fn finish(mut self, outcome: Result<Ended, Failure>) -> Result<Report, Error> {
        self.sink.release(&self.kernel);
        let closed = self.detour.close(&self.kernel);
        // The first failure is the one that counts.
        let outcome = outcome.and_then(|ended| closed.map(|()| ended).map_err(Failure::from));
        let mut attempts = vec![self.by_writing, self.by_tee];
        if self.plan.opening().is_none() {
            // Nothing was written but what the template left over.
            attempts.reverse();
        }
        attempts.retain(|attempt| attempt.calls > 0 || attempt.cause.is_some());
        let report = Report {
            bytes: self.bytes,
            records: 0,
            ended: outcome.as_ref().map_or(Ended::Failed, |ended| *ended),
            first_choice: self.plan.strategy(),
            attempts,
            sinks: Vec::new(),
            hole_bytes: 0,
            skipped_bytes: 0,
            shared_pages: PageSharing::None,
            grown_source: None,
            grown_sink: self.grown_sink,
            undelivered: Undelivered::default(),
        };
        match outcome {
            Ok(_) => Ok(report),
            Err(failure) => Err(Error::new(failure, report)),
        }
    }
}

/// As many repetitions as are worth a write, or need one.
fn repeated(pattern: &[u8], limit: Option<u64>) -> Cow<'_, [u8]> {
    let wanted = limit.map_or(buffer::FULL, |limit| {
        limit.min(buffer::FULL as u64) as usize
    });
    let times = wanted.next_multiple_of(pattern.len()).min(buffer::FULL) / pattern.len();
    match times {
        0 | 1 => Cow::Borrowed(pattern),
        times => Cow::Owned(pattern.repeat(times)),
    }
}
