//! The state that every engine owns: kernel, options, pacer, and the report so far.
//!
//! Nothing here sleeps: an engine adds the endpoints it needs to [`Context::awaited`], and a driver
//! polls them.

use std::time::Duration;

use crate::call_error::{CallError, Cause};
use crate::endpoint::{Available, Endpoint};
use crate::error::{Error, RunError};
use crate::fd_info::Kind;
use crate::options::Options;
use crate::pacer::Pacer;
use crate::pipe;
use crate::plan;
use crate::progress::{Observer, Progress};
use crate::rate::RateLimiter;
use crate::report::{Attempt, Ended, Report};
use crate::side::Side;
use crate::stop::Stop;
use crate::strategy::Strategy;
use crate::sys::{Blocking, Errno, Kernel, PollFd};
use crate::time_limits::TimeLimits;
use crate::wait::{Awaited, Wait, call_failed};

/// How many steps in a row may block, all but the first behind a poll that found the endpoint
/// ready, before the engine blames the strategy. Another process that uses the same pipe can cause
/// a few such wake-ups.
pub(crate) const MAX_TIMES_BLOCKED: u32 = 8;

/// How long to sleep between two tries of a strategy that has no other to follow it (the last one,
/// or a requested one), or of a fan-out, when it blocks on descriptors that poll as ready.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(1);

/// The state that every engine owns.
pub(crate) struct Context<'a, K> {
    pub(crate) kernel: K,
    pub(crate) options: Options,
    pub(crate) pacer: Pacer<'a>,
    /// Bytes that the sink has accepted.
    pub(crate) bytes: u64,
    /// Bytes in the whole transfer, if known.
    pub(crate) total: Option<u64>,
    /// The attempt of each strategy, in the order of first use.
    pub(crate) attempts: Vec<Attempt>,
    /// How many steps in a row have blocked. Every step but the first followed a poll in which the
    /// awaited endpoints were ready.
    pub(crate) times_blocked: u32,
    /// The endpoints of the last [`Wait`], with its result.
    pub(crate) awaited: Vec<Awaited<'a>>,
    /// The memory of the array for `poll(2)`. It is empty between two calls.
    pub(crate) polled: Vec<PollFd<'static>>,
    pub(crate) time_limits: TimeLimits,
    /// The most bytes that the next step may move.
    pub(crate) max_step: u64,
    /// Whether calls may sleep.
    blocking: Blocking,
    /// The caller's [`Stop`].
    pub(crate) stop: Option<Stop>,
    /// When the endpoints that are waited for first blocked since bytes last moved. Kept for
    /// sockets that have time-outs of their own.
    blocked_since: Option<Duration>,
    /// When the transfer began, by the kernel's monotonic clock.
    pub(crate) started: Duration,
    /// The first strategy of the plan.
    first_choice: Strategy,
    grown_source: Option<usize>,
    grown_sink: Option<usize>,
    may_grow: bool,
}

impl<'a, K: Kernel> Context<'a, K> {
    pub(crate) fn new(
        kernel: K,
        options: Options,
        first_choice: Strategy,
        observer: Option<Observer<'a>>,
        total: Option<u64>,
    ) -> Self {
        Self {
            pacer: Pacer::new(&kernel, &options, observer),
            bytes: 0,
            total,
            attempts: Vec::with_capacity(Strategy::PAIRWISE.len()),
            times_blocked: 0,
            awaited: Vec::new(),
            polled: Vec::new(),
            time_limits: TimeLimits::new(&kernel, &options),
            max_step: u64::MAX,
            blocking: options.blocking(),
            stop: None,
            blocked_since: None,
            grown_source: None,
            grown_sink: None,
            may_grow: options.grow_pipes,
            started: kernel.now(),
            kernel,
            options,
            first_choice,
        }
    }

    /// Uses the caller's rate limiter, if there is one.
    pub(crate) fn share_rate_limiter(&mut self, rate_limiter: Option<RateLimiter>) {
        self.pacer.share_rate_limiter(&self.kernel, rate_limiter);
    }

    /// Returns whether calls may sleep.
    #[inline]
    pub(crate) fn blocking(&self) -> Blocking {
        self.blocking
    }

    /// Polls before each call from now on if this sink is a socket in blocking mode that has a
    /// time-out of its own (`SO_SNDTIMEO`).
    ///
    /// The kernel starts the time-out anew in each call, and a call that times out after it has
    /// moved bytes returns their number. So a transfer that sleeps in its calls would time out only
    /// in the second call without a byte, or later.
    pub(crate) fn poll_if_timed(&mut self, sink: &mut Endpoint<'_>) {
        if self.blocking == Blocking::MaySleep && sink.time_out(&self.kernel, Side::Sink).is_some()
        {
            self.blocking = Blocking::Nonblocking;
        }
    }

    /// Returns how the transfer ends before its next step, if its caller wants that: it was
    /// stopped, or its deadline has passed.
    #[inline]
    pub(crate) fn ended_early(&self) -> Option<Ended> {
        if self.stop.as_ref().is_some_and(Stop::is_stopped) {
            return Some(Ended::Stopped);
        }
        let is_late = self.time_limits.is_past_deadline(&self.kernel);
        is_late.then_some(Ended::TimedOut)
    }

    /// Notes that bytes have moved.
    #[inline]
    pub(crate) fn note_activity(&mut self) {
        self.blocked_since = None;
        self.time_limits.note_activity(&self.kernel);
    }

    /// Returns the strategy that the caller requests.
    pub(crate) fn requested(&self) -> Option<Strategy> {
        plan::requested(&self.options)
    }

    /// Returns how many bytes the limit leaves after `n` bytes.
    pub(crate) fn until_limit(&self, n: u64) -> u64 {
        self.options.limit.map_or(u64::MAX, |limit| limit - n)
    }

    /// Returns the attempt of one strategy, and adds it if it is new.
    #[inline]
    pub(crate) fn attempt(&mut self, strategy: Strategy) -> &mut Attempt {
        // It is usually the last one.
        let mut attempts = self.attempts.iter();
        let found = attempts.rposition(|attempt| attempt.strategy == strategy);
        let index = found.unwrap_or_else(|| {
            self.attempts.push(Attempt::new(strategy));
            self.attempts.len() - 1
        });
        &mut self.attempts[index]
    }

    /// Adds calls and bytes to the attempt of one strategy.
    #[inline]
    pub(crate) fn credit(&mut self, strategy: Strategy, calls: u64, bytes: u64) {
        let attempt = self.attempt(strategy);
        attempt.calls += calls;
        attempt.bytes += bytes;
    }

    /// Returns the state of the transfer for an observer.
    #[inline]
    pub(crate) fn progress(
        &self,
        strategy: Strategy,
        records: u64,
        blocked: Option<Side>,
    ) -> Progress {
        Progress {
            bytes: self.bytes,
            records,
            total: self.total,
            strategy,
            blocked,
        }
    }

    /// Returns whether larger pipes are of use, after `moved` bytes or by the source's size: at the
    /// end of a stream they would come too late. A limit says nothing: it is only an upper bound.
    /// Returns false if the pipes have been enlarged, or may not be.
    #[inline]
    pub(crate) fn should_grow_pipes(&self, moved: u64, source: &Endpoint<'_>) -> bool {
        if !self.may_grow {
            return false;
        }
        let is_large =
            source.info.size.is_some() && self.total.is_some_and(|n| n > plan::GROW_PIPES_ABOVE);
        let is_long = || moved > plan::GROW_PIPES_ABOVE;
        is_large || is_long() && source.available(&self.kernel) != Available::End
    }

    /// Returns whether a rate or the steps of a session may ask for less than a pipe holds.
    pub(crate) fn may_take_short_steps(&self) -> bool {
        let options = &self.options;
        let has_rate = options.rate_limit.is_some() || options.records.rate.is_some();
        has_rate || options.stepped
    }

    /// Enlarges the caller's pipes, once.
    ///
    /// Between two pipes the cost is the number of times that the processes take turns, which the
    /// smaller pipe determines.
    #[inline]
    pub(crate) fn grow_pipes<'e>(
        &mut self,
        source: Option<&Endpoint<'e>>,
        sinks: impl Iterator<Item = &'e Endpoint<'e>>,
    ) where
        'a: 'e,
    {
        if !self.may_grow {
            return;
        }
        self.may_grow = false;
        let grow = |endpoint: &Endpoint<'_>| match endpoint.info.kind {
            Kind::Pipe => pipe::grow(&self.kernel, endpoint.fd, self.options.pipe_size),
            _ => None,
        };
        self.grown_source = source.and_then(grow);
        for (index, sink) in sinks.enumerate() {
            let grown = grow(sink);
            if index == 0 {
                self.grown_sink = grown;
            }
        }
    }

    /// Counts a step that blocked. Returns how long to sleep before the next poll if endpoints keep
    /// polling as ready and then block.
    pub(crate) fn count_blocked(&mut self) -> Option<Duration> {
        self.times_blocked += 1;
        self.has_blocked_too_often().then_some(RETRY_DELAY)
    }

    /// Returns whether steps have blocked so often, although the endpoints polled as ready, that
    /// the engine blames the strategy.
    pub(crate) fn has_blocked_too_often(&self) -> bool {
        self.times_blocked > MAX_TIMES_BLOCKED
    }

    /// Adds an endpoint to those that are waited for. If calls may not sleep, it leaves out an
    /// endpoint that never becomes ready: the next call fails with the reason, and a wait would not
    /// end.
    pub(crate) fn await_ready(&mut self, side: Side, endpoint: &mut Endpoint<'a>) {
        let polls_first = self.blocking() == Blocking::Nonblocking;
        if polls_first && endpoint.is_never_ready(&self.kernel, side) {
            return;
        }
        let deadline = self.deadline(side, endpoint, None);
        if deadline.is_some() {
            self.blocked_since.get_or_insert_with(|| self.kernel.now());
        }
        self.awaited
            .push(Awaited::ready(endpoint.fd, side, deadline));
    }

    /// Returns how many bytes, up to `wanted`, the coming step may take from the source.
    /// `in_flight` bytes have left it and have not been delivered.
    ///
    /// If the rate limit allows none and the source seems to have ended, this is 1: the call that
    /// finds the end moves nothing.
    ///
    /// # Errors
    ///
    /// Returns what to wait for. A source that has no bytes is waited for, so that an idle transfer
    /// keeps no turn. A FIFO that may lack a writer is not, because `poll(2)` does not show that.
    pub(crate) fn take_tokens(
        &mut self,
        source: &mut Endpoint<'a>,
        wanted: u64,
        in_flight: u64,
    ) -> Result<u64, Wait> {
        let time = match self.pacer.take(&self.kernel, wanted, in_flight) {
            Ok(n) => return Ok(n),
            Err(time) => time,
        };
        match source.available(&self.kernel) {
            Available::End if self.pacer.allow_probe() => return Ok(1),
            Available::Nothing
                if self.blocking() == Blocking::Nonblocking && !source.may_lack_writer() =>
            {
                self.await_ready(Side::Source, source);
            }
            _ => {}
        }
        let must_wait = !self.awaited.is_empty();
        Err(if must_wait {
            Wait::before_call()
        } else {
            Wait::Time(time)
        })
    }

    /// Returns when the socket's own time-out expires, if `poll(2)` replaces the call that would
    /// time out. The endpoint has blocked since `since`, or since the last bytes moved.
    pub(crate) fn deadline(
        &self,
        side: Side,
        endpoint: &mut Endpoint<'a>,
        since: Option<Duration>,
    ) -> Option<Duration> {
        if self.blocking() == Blocking::MaySleep {
            return None;
        }
        let time_out = endpoint.time_out(&self.kernel, side)?;
        let since = since
            .or(self.blocked_since)
            .unwrap_or_else(|| self.kernel.now());
        Some(since + time_out)
    }

    /// Fails if a call on this socket returned `EAGAIN` because the socket's own time-out has
    /// expired.
    pub(crate) fn check_time_out(
        &self,
        side: Side,
        endpoint: &mut Endpoint<'_>,
    ) -> Result<(), CallError> {
        if endpoint.eagain_means_time_out(&self.kernel, side, self.blocking()) {
            return Err(call_failed(side, Errno::AGAIN));
        }
        Ok(())
    }

    /// Ends the last wait. Fails if the time-out of a socket expired, as the call itself would
    /// have.
    #[inline]
    pub(crate) fn end_wait(&mut self) -> Result<(), CallError> {
        if self.awaited.is_empty() {
            return Ok(());
        }
        let mut awaited = self.awaited.drain(..);
        awaited
            .find_map(|awaited| awaited.failure())
            .map_or(Ok(()), Err)
    }

    /// Returns the report, which `complete` adds to, or the error that carries it. A failure of
    /// `cleanup` counts only if it is the first.
    pub(crate) fn finish(
        &mut self,
        outcome: Result<Ended, RunError>,
        cleanup: Result<(), impl Into<RunError>>,
        complete: impl FnOnce(Report) -> Report,
    ) -> Result<Report, Error> {
        let outcome = outcome.and_then(|ended| cleanup.map(|()| ended).map_err(Into::into));
        let ended = outcome.as_ref().map_or(Ended::Failed, |ended| *ended);
        let report = complete(Report {
            bytes: self.bytes,
            attempts: std::mem::take(&mut self.attempts),
            grown_source: self.grown_source,
            grown_sink: self.grown_sink,
            elapsed: self.kernel.now().saturating_sub(self.started),
            ..Report::of_nothing(ended, Some(self.first_choice))
        });
        match outcome {
            Ok(_) => Ok(report),
            Err(error) => Err(Error::new(error, report)),
        }
    }
}

/// Returns the error for a strategy that the caller requests and that cannot go on.
pub(crate) fn requested_failed(strategy: Strategy, cause: Cause) -> RunError {
    RunError::unsuitable(strategy, "the attempt failed").caused_by(cause)
}
