//! What every loop shares: the kernel, the options, the pacer, and the report under way. It never waits.

use std::time::Duration;

use crate::call_error::{CallError, Cause};
use crate::endpoint::Endpoint;
use crate::error::{Error, RunError};
use crate::fd_info::Kind;
use crate::options::Options;
use crate::pacer::Pacer;
use crate::pipe;
use crate::plan;
use crate::progress::{Observer, Progress};
use crate::report::{Attempt, Ended, Report};
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::{Blocking, Errno, Kernel, PollFd};
use crate::wait::{Awaited, State};

/// How often in a row an endpoint may poll as ready and then block all the same, before the strategy is
/// taken to be at fault. Another process at the same pipe can cause a few.
pub(crate) const MAX_SPURIOUS_WAKEUPS: u32 = 8;

/// The pause between two tries of a strategy that blocks on ready descriptors, once no other strategy is left.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(1);

/// What every loop owns once.
pub(crate) struct Context<'a, K> {
    pub(crate) kernel: K,
    pub(crate) options: Options,
    pub(crate) pacer: Pacer<'a>,
    /// Bytes that the sink has accepted.
    pub(crate) bytes: u64,
    /// Bytes that the whole transfer comes to, if that is known.
    pub(crate) total: Option<u64>,
    /// What each strategy did, in the order of first use.
    pub(crate) attempts: Vec<Attempt>,
    /// How often in a row an endpoint polled as ready and then blocked.
    pub(crate) spurious_wakeups: u32,
    /// The endpoints of the last [`Wait`], with what it has found out.
    pub(crate) awaited: Vec<Awaited<'a>>,
    /// Memory for `poll(2)`.
    pub(crate) polled: Vec<PollFd<'a>>,
    /// The strategy that the plan began with.
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
            spurious_wakeups: 0,
            awaited: Vec::new(),
            polled: Vec::new(),
            grown_source: None,
            grown_sink: None,
            may_grow: options.grow_pipes,
            kernel,
            options,
            first_choice,
        }
    }

    /// Whether calls may sleep: not if the caller wants to be told something meanwhile.
    #[inline]
    pub(crate) fn blocking(&self) -> Blocking {
        if self.pacer.ticks() || self.options.watch_readers {
            Blocking::Nonblocking
        } else {
            Blocking::MaySleep
        }
    }

    /// The strategy that the caller insists on.
    pub(crate) fn requested(&self) -> Option<Strategy> {
        plan::requested(&self.options)
    }

    /// What the limit leaves, if this many bytes have been taken from the source.
    pub(crate) fn left(&self, taken: u64) -> u64 {
        self.options.limit.map_or(u64::MAX, |limit| limit - taken)
    }

    /// The record of one strategy.
    #[inline]
    pub(crate) fn attempt(&mut self, strategy: Strategy) -> &mut Attempt {
        // Most often it is the last one.
        let mut attempts = self.attempts.iter();
        let found = attempts.rposition(|attempt| attempt.strategy == strategy);
        let index = found.unwrap_or_else(|| {
            self.attempts.push(Attempt::new(strategy));
            self.attempts.len() - 1
        });
        &mut self.attempts[index]
    }

    /// Adds to the record of one strategy.
    #[inline]
    pub(crate) fn credit(&mut self, strategy: Strategy, calls: u64, bytes: u64) {
        let attempt = self.attempt(strategy);
        attempt.calls += calls;
        attempt.bytes += bytes;
    }

    /// What an observer is told.
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

    /// Enlarges the caller's pipes, once, when `is_long` says that the transfer is long.
    ///
    /// Between two pipes it is the number of turns that the processes take which costs, and the smaller pipe
    /// sets it.
    #[inline]
    pub(crate) fn grow_pipes<'e>(
        &mut self,
        is_long: bool,
        source: Option<&Endpoint<'e>>,
        sinks: impl Iterator<Item = &'e Endpoint<'e>>,
    ) where
        'a: 'e,
    {
        if !(self.may_grow && is_long) {
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

    /// Notes that a step blocked, and says how long to sleep before the next poll if polls keep saying that
    /// it would not.
    pub(crate) fn count_spurious_wakeup(&mut self) -> Option<Duration> {
        self.spurious_wakeups += 1;
        (self.spurious_wakeups > MAX_SPURIOUS_WAKEUPS).then_some(RETRY_DELAY)
    }

    /// Adds an endpoint to those that are waited for. With a tick, one that never becomes ready is left out: the
    /// next call says why it moves nothing, which no wait would.
    pub(crate) fn await_ready(&mut self, side: Side, endpoint: &mut Endpoint<'a>) {
        if self.pacer.ticks() && endpoint.is_never_ready(&self.kernel, side) {
            return;
        }
        let deadline = self.deadline(side, endpoint, None);
        self.awaited
            .push(Awaited::ready(endpoint.fd, side, deadline));
    }

    /// When the time-out of the socket itself expires, if a wait takes the place of the call that has it. The wait began
    /// at `since`, or begins now.
    pub(crate) fn deadline(
        &self,
        side: Side,
        endpoint: &mut Endpoint<'a>,
        since: Option<Duration>,
    ) -> Option<Duration> {
        if self.blocking() == Blocking::MaySleep {
            return None;
        }
        let time_out = endpoint.until_timed_out(&self.kernel, side, Duration::ZERO)?;
        Some(since.unwrap_or_else(|| self.kernel.now()) + time_out)
    }

    /// Ends the last wait. Fails if it ended by the time-out of a socket, which is an answer, not a reason to try again.
    #[inline]
    pub(crate) fn end_wait(&mut self) -> Result<(), CallError> {
        if self.awaited.is_empty() {
            return Ok(());
        }
        let mut awaited = self.awaited.iter();
        let timed_out_one = awaited.find(|awaited| awaited.state == State::TimedOut);
        let outcome = match timed_out_one {
            Some(awaited) => Err(timed_out(awaited.side)),
            None => Ok(()),
        };
        self.awaited.clear();
        outcome
    }

    /// The report, but for what only one loop knows.
    pub(crate) fn report(&mut self, outcome: &Result<Ended, RunError>) -> Report {
        let ended = outcome.as_ref().map_or(Ended::Failed, |ended| *ended);
        Report {
            bytes: self.bytes,
            attempts: std::mem::take(&mut self.attempts),
            grown_source: self.grown_source,
            grown_sink: self.grown_sink,
            ..Report::of_nothing(ended, self.first_choice)
        }
    }
}

/// Returns the report of a success, or the error that carries it.
pub(crate) fn conclude(outcome: Result<Ended, RunError>, report: Report) -> Result<Report, Error> {
    match outcome {
        Ok(_) => Ok(report),
        Err(error) => Err(Error::new(error, report)),
    }
}

/// The failure of a strategy that the caller insists on and the kernel refuses.
pub(crate) fn refused(strategy: Strategy, cause: Cause) -> RunError {
    RunError::unsuitable(strategy, "the kernel refuses it").caused_by(cause)
}

/// The error that a socket's own time-out comes to.
pub(crate) fn timed_out(side: Side) -> CallError {
    let call = match side {
        Side::Source => "read",
        Side::Sink | Side::Neither => "write",
    };
    CallError::new(call, side, Errno::AGAIN)
}
