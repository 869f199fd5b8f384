//! Both directions of a relay, and the wait for either.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::direction::Direction;
use super::interest::{EndInterest, RelayInterest, RelayProgress, RelayProgressed};
use crate::call_error::CallError;
use crate::classify;
use crate::context::RETRY_DELAY;
use crate::drive;
use crate::endpoint::{Endpoint, PolledError};
use crate::engine::{Callbacks, Engine, PairEngine};
use crate::error::{Error, Result, RunError};
use crate::fd_info::{FdInfo, Kind};
use crate::options::Options;
use crate::plan::Plan;
use crate::rate::RateLimiter;
use crate::report::{Ended, RelayReport, Report};
use crate::session::Steps;
#[cfg(feature = "tokio")]
use crate::session::{Belief, Interest};
use crate::side::Side;
use crate::stop::Stop;
use crate::sys::{Errno, Kernel, PollFd, PollFlags};
use crate::time_limits::TimeLimits;

/// The facts and the plan of each direction.
pub(super) struct PreparedBoth {
    a_to_b: (FdInfo, FdInfo, Plan),
    b_to_a: (FdInfo, FdInfo, Plan),
    prefixes: Prefixes,
}

/// The bytes that the caller has read from each end before the relay.
#[derive(Default)]
pub(super) struct Prefixes {
    pub(super) from_a: Vec<u8>,
    pub(super) from_b: Vec<u8>,
}

impl Prefixes {
    /// Returns the error of a relay that has not begun, with the report of one direction as its own.
    /// The reports hand the prefixes back.
    fn into_error(self, refused: RunError, of: impl FnOnce(&RelayReport) -> &Report) -> Error {
        let report = RelayReport {
            a_to_b: Report::of_prefix(self.from_a),
            b_to_a: Report::of_prefix(self.from_b),
            ended: Ended::Failed,
        };
        Error::new(refused, of(&report).clone()).with_relay(report)
    }
}

/// The beliefs of a reactor about one end.
#[cfg(feature = "tokio")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beliefs {
    pub(crate) readable: Belief,
    pub(crate) writable: Belief,
}

/// Both directions of a relay.
pub(crate) struct Both<'a, K: Kernel> {
    kernel: K,
    a: BorrowedFd<'a>,
    b: BorrowedFd<'a>,
    a_to_b: Direction<'a, K>,
    b_to_a: Direction<'a, K>,
    time_limits: TimeLimits,
    stop: Option<Stop>,
    ended: Option<Ended>,
    /// The failure of a direction whose sink has gone. The other one goes on: what the peer of that
    /// sink sent before it went may still be on its way.
    failure: Option<Error>,
    /// Whether an end polls as hung up without having failed.
    ignores_a: bool,
    ignores_b: bool,
}

impl<'a, K: Kernel + Copy + Send + 'a> Both<'a, K> {
    /// Classifies both ends for both directions.
    ///
    /// # Errors
    ///
    /// Those of a refused relay, which hand the prefixes back.
    pub(super) fn prepare(
        kernel: &K,
        a: BorrowedFd<'_>,
        b: BorrowedFd<'_>,
        options: &Options,
        prefixes: Prefixes,
    ) -> Result<PreparedBoth> {
        let prepare = |source, sink| classify::prepare(kernel, source, sink, options);
        let a_to_b = match prepare(a, b).and_then(without_files) {
            Ok(prepared) => prepared,
            Err(refused) => return Err(prefixes.into_error(refused, RelayReport::a_to_b)),
        };
        match prepare(b, a) {
            Ok(b_to_a) => Ok(PreparedBoth {
                a_to_b,
                b_to_a,
                prefixes,
            }),
            Err(refused) => Err(prefixes.into_error(refused, RelayReport::b_to_a)),
        }
    }

    pub(super) fn new(
        kernel: K,
        a: BorrowedFd<'a>,
        b: BorrowedFd<'a>,
        prepared: PreparedBoth,
        options: Options,
        rate_limiter: Option<&RateLimiter>,
        stop: Option<Stop>,
    ) -> Self {
        let time_limits = TimeLimits::new(&kernel, &options);
        // The time-outs are common to both directions.
        let options = Options {
            idle_timeout: None,
            deadline: None,
            ..options
        };
        let direction = |source, sink, (from, to, plan), prefix: Vec<u8>| {
            let source = Endpoint::new(source, from, None);
            let to = Endpoint::new(sink, to, None);
            let callbacks = Callbacks::default();
            let mut engine = PairEngine::new(kernel, source, to, plan, options, callbacks);
            engine.context().share_rate_limiter(rate_limiter.cloned());
            engine.prepend(prefix);
            Direction::new(Steps::new(engine), sink)
        };
        let prefixes = prepared.prefixes;
        Self {
            kernel,
            a,
            b,
            a_to_b: direction(a, b, prepared.a_to_b, prefixes.from_a),
            b_to_a: direction(b, a, prepared.b_to_a, prefixes.from_b),
            time_limits,
            stop,
            ended: None,
            failure: None,
            ignores_a: false,
            ignores_b: false,
        }
    }

    pub(crate) fn step(&mut self, max: u64) -> Result<RelayProgressed> {
        self.note_rate_wait();
        if let Some(ended) = self.ended.or_else(|| self.ended_early()) {
            return self.end_with(ended);
        }
        // The idle time is checked after the ends: bytes that have arrived by now count, although
        // the caller's thread may have been held since.
        let a_to_b = self.a_to_b.step(max);
        let a_to_b = a_to_b.or_else(|error| self.continue_after(error))?;
        let b_to_a = self.b_to_a.step(max);
        let b_to_a = b_to_a.or_else(|error| self.continue_after(error))?;
        if a_to_b + b_to_a > 0 {
            self.time_limits.note_activity(&self.kernel);
            self.rest(a_to_b, b_to_a);
            return Ok(RelayProgressed::Moved { a_to_b, b_to_a });
        }
        if !self.a_to_b.is_open() && !self.b_to_a.is_open() {
            return self.end_with(Ended::Eof);
        }
        self.check_resets()?;
        self.note_rate_wait();
        let left = self.time_limits.remaining(&self.kernel);
        if left.is_some_and(|left| left.is_zero()) {
            return self.end_with(Ended::TimedOut);
        }
        self.rest(0, 0);
        Ok(RelayProgressed::Blocked(self.interest()))
    }

    /// Ends the relay if an end has been reset that no direction reads or writes now.
    ///
    /// A socket returns the error of a reset once. After that it reads as at a regular end, so the
    /// other direction does not go on.
    fn check_resets(&mut self) -> Result<()> {
        let interest = self.interest();
        let a = Self::reset_of(&self.kernel, self.a, interest.a, &mut self.ignores_a);
        let b = Self::reset_of(&self.kernel, self.b, interest.b, &mut self.ignores_b);
        let failure = |errno| CallError::new("poll", Side::Sink, errno);
        let error = match (a, b) {
            (Some(errno), _) => self.b_to_a.fail(failure(errno)),
            (None, Some(errno)) => self.a_to_b.fail(failure(errno)),
            (None, None) => return Ok(()),
        };
        self.fail_with_first(error)
    }

    /// Ends the relay by the failure of a direction that was kept, or else by this one.
    fn fail_with_first(&mut self, failure: Option<Error>) -> Result<()> {
        let first = self.failure.take().or(failure);
        first.map_or(Ok(()), |error| Err(self.fail(error)))
    }

    /// Returns the error of a socket that waits for a hang-up, if it has one. An end that polls as
    /// hung up without an error is ignored from then on, because it stays so.
    fn reset_of(
        kernel: &K,
        fd: BorrowedFd<'_>,
        interest: EndInterest,
        is_ignored: &mut bool,
    ) -> Option<Errno> {
        if !interest.hang_up {
            return None;
        }
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
        let polled = kernel.poll(&mut fds, Some(Duration::ZERO));
        if polled.is_err() || fds[0].revents().is_empty() {
            return None;
        }
        let errno = kernel.socket_error(fd).ok().flatten();
        *is_ignored = errno.is_none() && fds[0].revents().contains(PollFlags::HUP);
        errno
    }

    /// Notes that the relay is not idle, if a direction waits for its rate.
    fn note_rate_wait(&mut self) {
        if self.a_to_b.waits_for_rate() || self.b_to_a.waits_for_rate() {
            self.time_limits.note_activity(&self.kernel);
        }
    }

    /// Keeps the failure of a direction whose sink has gone, if it is the first one. The direction
    /// has moved nothing more.
    ///
    /// # Errors
    ///
    /// Any other failure ends the relay.
    fn continue_after(&mut self, error: Error) -> Result<u64> {
        if self.failure.is_none() && error.side() == Side::Sink && error.is_disconnected() {
            self.failure = Some(error);
            return Ok(0);
        }
        // The first failure is the cause of the second.
        let first = self.failure.take();
        Err(self.fail(first.unwrap_or(error)))
    }

    /// Ends the relay, with the failure of a direction if there was one.
    fn end_with(&mut self, ended: Ended) -> Result<RelayProgressed> {
        if let Some(error) = self.failure.take() {
            return Err(self.fail(error));
        }
        self.ended = Some(ended);
        Ok(RelayProgressed::Ended(ended))
    }

    /// Returns how the relay ends now even if it could move bytes, if it does.
    fn ended_early(&self) -> Option<Ended> {
        if self.stop.as_ref().is_some_and(Stop::is_stopped) {
            return Some(Ended::Stopped);
        }
        let is_over = self.time_limits.is_past_deadline(&self.kernel);
        is_over.then_some(Ended::TimedOut)
    }

    /// Gives back the pipe of a direction that has moved nothing for long enough. The arguments are
    /// the bytes that this step has moved.
    fn rest(&mut self, a_to_b: u64, b_to_a: u64) {
        let now = self.kernel.now();
        self.a_to_b.rest(a_to_b, now);
        self.b_to_a.rest(b_to_a, now);
    }

    /// Returns what both directions wait for.
    fn interest(&self) -> RelayInterest {
        let (a_to_b, b_to_a) = (self.a_to_b.interest(), self.b_to_a.interest());
        let rests_at = self.a_to_b.rests_at().into_iter();
        let rests_at = rests_at.chain(self.b_to_a.rests_at()).min();
        let until_rest = rests_at.map(|rests_at| rests_at.saturating_sub(self.kernel.now()));
        let times = [
            a_to_b.timeout(),
            b_to_a.timeout(),
            self.time_limits.remaining(&self.kernel),
            until_rest,
        ];
        let end = |readable, writable, may_hang_up| EndInterest {
            readable,
            writable,
            hang_up: may_hang_up && !readable && !writable,
        };
        let may_hang_up = |into: &Direction<'_, K>, is_ignored: bool| into.is_open() && !is_ignored;
        RelayInterest {
            a: end(
                a_to_b.source(),
                b_to_a.sink(),
                may_hang_up(&self.b_to_a, self.ignores_a),
            ),
            b: end(
                b_to_a.source(),
                a_to_b.sink(),
                may_hang_up(&self.a_to_b, self.ignores_b),
            ),
            timeout: times.into_iter().flatten().min(),
        }
    }

    pub(super) fn drive(&mut self) -> Result<Ended> {
        loop {
            match self.step(u64::MAX)? {
                RelayProgressed::Moved { .. } => {}
                RelayProgressed::Ended(ended) => return Ok(ended),
                RelayProgressed::Blocked(interest) => self.wait(interest)?,
            }
        }
    }

    /// Polls for the interest once, and tells both directions the result.
    fn wait(&mut self, interest: RelayInterest) -> Result<()> {
        let mut polled = Polled::new(self.a);
        let a = (!interest.a.is_none()).then(|| polled.push(self.a, interest.a.events()));
        let b = (!interest.b.is_none()).then(|| polled.push(self.b, interest.b.events()));
        if let Some(stop) = &self.stop {
            polled.push(stop.as_fd(), PollFlags::IN);
        }
        match self.kernel.poll(polled.fds(), interest.timeout) {
            // The next step checks the time limits.
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(errno) => return Err(self.fail_by(CallError::new("poll", Side::Neither, errno))),
        }
        let (a, b) = (polled.found(a), polled.found(b));
        for (fd, events, is_a) in [(self.a, a, true), (self.b, b, false)] {
            match PolledError::of(&self.kernel, fd, events) {
                PolledError::Pending => {}
                PolledError::False => {
                    // The next poll would return at once, too.
                    let stop = self.stop.as_ref();
                    let _ = drive::sleep_unless_stopped(&self.kernel, stop, RETRY_DELAY);
                    return Ok(());
                }
                // No call returns the error again. A poll amid a reset gives it without a hang-up.
                PolledError::Cleared(errno) => {
                    let (from, to) = if is_a {
                        (&mut self.a_to_b, &mut self.b_to_a)
                    } else {
                        (&mut self.b_to_a, &mut self.a_to_b)
                    };
                    let error = from.fail(CallError::new("read", Side::Source, errno));
                    // A direction that has ended reads no more: the other one fails.
                    let failure = CallError::new("poll", Side::Sink, errno);
                    let error = error.or_else(|| to.fail(failure));
                    return self.fail_with_first(error);
                }
            }
        }
        let (readable, writable) = (PollFlags::IN | BROKEN, PollFlags::OUT | BROKEN);
        self.a_to_b
            .note_polled(a.intersects(readable), b.intersects(writable));
        self.b_to_a
            .note_polled(b.intersects(readable), a.intersects(writable));
        Ok(())
    }

    /// Returns the descriptors of both ends.
    #[cfg(feature = "tokio")]
    pub(crate) fn fds(&self) -> (BorrowedFd<'a>, BorrowedFd<'a>) {
        (self.a, self.b)
    }

    /// Returns the caller's `Stop`.
    #[cfg(feature = "tokio")]
    pub(crate) fn stop(&self) -> Option<Stop> {
        self.stop.clone()
    }

    /// Notes what a reactor believes before the next step. A direction that waits for an end that
    /// is not believed ready takes no step: the reactor tells when to take it.
    #[cfg(feature = "tokio")]
    pub(crate) fn note_beliefs(&mut self, a: Beliefs, b: Beliefs) {
        self.a_to_b.note_beliefs(a.readable, b.writable);
        self.b_to_a.note_beliefs(b.readable, a.writable);
    }

    /// Lets a direction that is blocked take no step while only the other one is stepped.
    #[cfg(feature = "tokio")]
    pub(crate) fn stay_blocked(&mut self) {
        self.a_to_b.note_beliefs(Belief::NotReady, Belief::NotReady);
        self.b_to_a.note_beliefs(Belief::NotReady, Belief::NotReady);
    }

    /// Returns what each direction waits for: from the first end to the second, and back.
    #[cfg(feature = "tokio")]
    pub(crate) fn interests(&self) -> (Interest, Interest) {
        (self.a_to_b.interest(), self.b_to_a.interest())
    }

    /// Ends both directions by this failure of a wait.
    pub(crate) fn fail_by(&mut self, failure: CallError) -> Error {
        let error = self.a_to_b.fail(failure);
        let error = error.or_else(|| self.b_to_a.fail(failure));
        // A wait is for a direction that has not ended.
        let error = error.unwrap_or_else(|| RunError::from(failure).before_anything_moved());
        self.fail(error)
    }

    pub(super) fn progress(&self) -> RelayProgress {
        RelayProgress {
            a_to_b: self.a_to_b.progress(),
            b_to_a: self.b_to_a.progress(),
        }
    }

    /// Ends both directions, and returns the error with the reports of both.
    fn fail(&mut self, error: Error) -> Error {
        // Only the first failure counts.
        error.with_relay(self.end(Ended::Failed).0)
    }

    pub(super) fn finish(&mut self) -> Result<RelayReport> {
        if let Some(error) = self.failure.take() {
            return Err(self.fail(error));
        }
        match self.end(self.ended.unwrap_or(Ended::Stopped)) {
            (report, None) => Ok(report),
            (report, Some(error)) => Err(error.with_relay(report)),
        }
    }

    /// Ends both directions. Returns the report, and the first failure.
    fn end(&mut self, ended: Ended) -> (RelayReport, Option<Error>) {
        self.ended = Some(ended);
        let (a_to_b, first_error) = self.a_to_b.finish(ended);
        let (b_to_a, second_error) = self.b_to_a.finish(ended);
        let report = RelayReport {
            a_to_b,
            b_to_a,
            ended,
        };
        (report, first_error.or(second_error))
    }
}

/// Returns what has been prepared for one direction.
///
/// # Errors
///
/// `EINVAL` for a file or a block device, which has one cursor for reads and writes.
fn without_files(
    prepared: (FdInfo, FdInfo, Plan),
) -> std::result::Result<(FdInfo, FdInfo, Plan), RunError> {
    for (info, side) in [(prepared.0, Side::Source), (prepared.1, Side::Sink)] {
        if matches!(info.kind, Kind::Regular | Kind::Block) {
            let reason = "a relay reads and writes it, and a file has one cursor for both";
            return Err(RunError::refused(side, Errno::INVAL, reason));
        }
    }
    Ok(prepared)
}

/// The flags that `poll(2)` returns for an end that is broken or hung up. The next call returns the
/// error.
const BROKEN: PollFlags = PollFlags::HUP.union(PollFlags::ERR).union(PollFlags::NVAL);

/// The descriptors of one `poll(2)`: both ends, and the caller's `Stop`.
struct Polled<'fd> {
    fds: [PollFd<'fd>; 3],
    len: usize,
}

impl<'fd> Polled<'fd> {
    /// Returns an empty list. (The array needs some descriptor.)
    fn new(any: BorrowedFd<'fd>) -> Self {
        let unused = PollFd::from_borrowed_fd(any, PollFlags::empty());
        Self {
            fds: [unused.clone(), unused.clone(), unused],
            len: 0,
        }
    }

    /// Adds a descriptor, and returns its place. One that is of no interest must not be added: it
    /// may be hung up, which would end every poll.
    fn push(&mut self, fd: BorrowedFd<'fd>, events: PollFlags) -> usize {
        let index = self.len;
        self.fds[index] = PollFd::from_borrowed_fd(fd, events);
        self.len += 1;
        index
    }

    fn fds(&mut self) -> &mut [PollFd<'fd>] {
        &mut self.fds[..self.len]
    }

    /// Returns what the poll has found.
    fn found(&self, index: Option<usize>) -> PollFlags {
        index.map_or(PollFlags::empty(), |index| self.fds[index].revents())
    }
}
