//! [`RelaySession`]: a relay whose steps the caller takes.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::direction::Direction;
use crate::call_error::CallError;
use crate::classify;
use crate::endpoint::Endpoint;
use crate::engine::{Callbacks, PairEngine};
use crate::error::{Error, Result, RunError};
use crate::fd_info::FdInfo;
use crate::options::Options;
use crate::plan::Plan;
use crate::rate::RateLimiter;
use crate::report::{Ended, RelayReport};
use crate::session::Steps;
use crate::side::Side;
use crate::stop::Stop;
use crate::sys::{Errno, Kernel, Linux, PollFd, PollFlags, WithOwners};
use crate::time_limits::TimeLimits;

#[cfg(doc)]
use crate::{Relay, Session};

/// How long both directions have to be blocked until they give back pipes and buffers.
const REST_AFTER: Duration = Duration::from_secs(1);

/// A [`Relay`] in steps, which never wait for one of its ends: what [`Session`] is to a transfer.
///
/// Choose it to serve many relays in one thread, by `poll(2)` or `epoll(7)`. [`Relay::start`]
/// begins one. Dropping it does what [`finish`](Self::finish) does, and drops what cannot be
/// delivered.
///
/// # Examples
///
/// ```
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
/// use zcopy::{Relay, RelayProgressed};
///
/// let (mut client, front) = UnixStream::pair()?;
/// let (back, mut server) = UnixStream::pair()?;
/// let mut session = Relay::new(front, back).start()?;
///
/// let RelayProgressed::Blocked(interest) = session.step(1 << 20)? else { panic!() };
/// assert!(interest.a().readable() && interest.b().readable());
///
/// client.write_all(b"hello")?;
/// assert!(matches!(session.step(1 << 20)?, RelayProgressed::Moved { a_to_b: 5, b_to_a: 0 }));
/// let mut word = [0; 5];
/// server.read_exact(&mut word)?;
/// assert_eq!(&word, b"hello");
///
/// let report = session.finish()?;
/// assert_eq!(report.a_to_b().bytes(), 5);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct RelaySession<A, B> {
    /// `None` once the relay has failed or is finished.
    parts: Option<WithOwners<Both<'static, Linux>, (A, B)>>,
    /// What the relay had done when it failed.
    failed: Option<RelayReport>,
}

/// The result of one [step](RelaySession::step) of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a blocked relay has to be waited for"]
#[non_exhaustive]
pub enum RelayProgressed {
    /// At least one byte moved. Call [`step`](RelaySession::step) again.
    Moved {
        /// The bytes that the second end accepted.
        a_to_b: u64,
        /// The bytes that the first end accepted.
        b_to_a: u64,
    },
    /// Nothing moved. Call [`step`](RelaySession::step) again when one of the interests is
    /// fulfilled.
    Blocked(RelayInterest),
    /// The relay has ended. Call [`finish`](RelaySession::finish).
    Ended(Ended),
}

/// What a [`RelaySession`] waits for: one of the events at its ends, or the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayInterest {
    a: EndInterest,
    b: EndInterest,
    timeout: Option<Duration>,
}

/// The events at one end that a [`RelaySession`] waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndInterest {
    readable: bool,
    writable: bool,
}

impl RelayInterest {
    /// Returns the events to wait for at the first end.
    #[must_use]
    pub fn a(&self) -> EndInterest {
        self.a
    }

    /// Returns the events to wait for at the second end.
    #[must_use]
    pub fn b(&self) -> EndInterest {
        self.b
    }

    /// Returns how long to wait at most before the next step. `None` if the relay waits for its
    /// ends alone.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }
}

impl EndInterest {
    /// Returns whether to wait until the end is readable (`POLLIN`).
    #[must_use]
    pub fn readable(&self) -> bool {
        self.readable
    }

    /// Returns whether to wait until the end is writable (`POLLOUT`).
    #[must_use]
    pub fn writable(&self) -> bool {
        self.writable
    }

    fn events(self) -> PollFlags {
        let mut events = PollFlags::empty();
        events.set(PollFlags::IN, self.readable);
        events.set(PollFlags::OUT, self.writable);
        events
    }
}

impl<A: AsFd, B: AsFd> RelaySession<A, B> {
    pub(super) fn new(parts: WithOwners<Both<'static, Linux>, (A, B)>) -> Self {
        Self {
            parts: Some(parts),
            failed: None,
        }
    }

    /// Takes one step in each direction, of up to `max` bytes, or returns what to wait for.
    ///
    /// # Errors
    ///
    /// Those of [`Relay::run`]. The relay is then over, and further steps return
    /// [`Ended::Failed`].
    pub fn step(&mut self, max: u64) -> Result<RelayProgressed> {
        let Some(parts) = &mut self.parts else {
            return Ok(RelayProgressed::Ended(Ended::Failed));
        };
        let progressed = parts.value_mut().step(max);
        progressed.map_err(|error| self.fail(error))
    }

    /// Takes steps until the relay ends, and waits with `poll(2)` between them.
    ///
    /// # Errors
    ///
    /// Those of [`Relay::run`].
    pub fn drive(&mut self) -> Result<Ended> {
        let Some(parts) = &mut self.parts else {
            return Ok(Ended::Failed);
        };
        let ended = parts.value_mut().drive();
        ended.map_err(|error| self.fail(error))
    }

    /// Ends the relay, and returns the report. A relay that has not ended is stopped. After a
    /// failure, this returns the report that the error contained.
    ///
    /// # Errors
    ///
    /// A failure of what the end needs, as [`Session::finish`](crate::Session::finish) has it.
    pub fn finish(mut self) -> Result<RelayReport> {
        match (self.parts.take(), self.failed.take()) {
            (Some(mut parts), _) => parts.value_mut().finish(),
            (None, Some(report)) => Ok(report),
            (None, None) => unreachable!("only a failure takes the parts of a session"),
        }
    }

    /// Remembers what the relay had done when it failed.
    fn fail(&mut self, error: Error) -> Error {
        self.failed = error.relay_report().cloned();
        self.parts = None;
        error
    }

    /// Returns the first end, to register it with a poller. `None` after a failure.
    #[must_use]
    pub fn a(&self) -> Option<&A> {
        Some(&self.parts.as_ref()?.owners().0)
    }

    /// Returns the second end. `None` after a failure.
    #[must_use]
    pub fn b(&self) -> Option<&B> {
        Some(&self.parts.as_ref()?.owners().1)
    }
}

impl<A, B> std::fmt::Debug for RelaySession<A, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelaySession").finish_non_exhaustive()
    }
}

/// The facts and the plan of each direction.
pub(super) struct PreparedBoth {
    a_to_b: (FdInfo, FdInfo, Plan),
    b_to_a: (FdInfo, FdInfo, Plan),
}

/// Both directions of a relay.
pub(super) struct Both<'a, K: Kernel> {
    kernel: K,
    a: BorrowedFd<'a>,
    b: BorrowedFd<'a>,
    a_to_b: Direction<'a, K>,
    b_to_a: Direction<'a, K>,
    time_limits: TimeLimits,
    stop: Option<Stop>,
    ended: Option<Ended>,
    /// When both directions rest, on the kernel's clock. `None` while bytes move, and once they do.
    rests_at: Option<Duration>,
    is_resting: bool,
}

impl<'a, K: Kernel + Copy + Send + 'a> Both<'a, K> {
    /// Classifies both ends for both directions.
    pub(super) fn prepare(
        kernel: &K,
        a: BorrowedFd<'_>,
        b: BorrowedFd<'_>,
        options: &Options,
    ) -> Result<PreparedBoth> {
        let prepare = |source, sink| {
            let prepared = classify::prepare(kernel, source, sink, options);
            prepared.map_err(RunError::before_anything_moved)
        };
        Ok(PreparedBoth {
            a_to_b: prepare(a, b)?,
            b_to_a: prepare(b, a)?,
        })
    }

    pub(super) fn new(
        kernel: K,
        a: BorrowedFd<'a>,
        b: BorrowedFd<'a>,
        prepared: PreparedBoth,
        options: Options,
        rate_limiter: Option<RateLimiter>,
        stop: Option<Stop>,
    ) -> Self {
        let time_limits = TimeLimits::new(&kernel, &options);
        // The time-outs are common to both directions.
        let options = Options {
            idle_timeout: None,
            deadline: None,
            ..options
        };
        let direction = |source, sink, (from, to, plan)| {
            let source = Endpoint::new(source, from, None);
            let to = Endpoint::new(sink, to, None);
            let callbacks = Callbacks::default();
            let engine = PairEngine::new(kernel, source, to, plan, options, callbacks);
            let _ = &rate_limiter;
            Direction::new(Steps::new(engine), sink)
        };
        Self {
            kernel,
            a,
            b,
            a_to_b: direction(a, b, prepared.a_to_b),
            b_to_a: direction(b, a, prepared.b_to_a),
            time_limits,
            stop,
            ended: None,
            rests_at: None,
            is_resting: false,
        }
    }

    fn step(&mut self, max: u64) -> Result<RelayProgressed> {
        if let Some(ended) = self.ended.or_else(|| self.ended_early()) {
            self.ended = Some(ended);
            return Ok(RelayProgressed::Ended(ended));
        }
        let a_to_b = self.a_to_b.step(max).map_err(|error| self.fail(error))?;
        let b_to_a = self.b_to_a.step(max).map_err(|error| self.fail(error))?;
        if a_to_b + b_to_a > 0 {
            self.time_limits.note_activity(&self.kernel);
            self.rests_at = None;
            self.is_resting = false;
            return Ok(RelayProgressed::Moved { a_to_b, b_to_a });
        }
        if !self.a_to_b.is_open() && !self.b_to_a.is_open() {
            self.ended = Some(Ended::Eof);
            return Ok(RelayProgressed::Ended(Ended::Eof));
        }
        self.rest();
        Ok(RelayProgressed::Blocked(self.interest()))
    }

    /// Returns how the relay ends now, if it does.
    fn ended_early(&self) -> Option<Ended> {
        if self.stop.as_ref().is_some_and(Stop::is_stopped) {
            return Some(Ended::Stopped);
        }
        let left = self.time_limits.remaining(&self.kernel);
        left.is_some_and(|left| left.is_zero())
            .then_some(Ended::TimedOut)
    }

    /// Gives back pipes and buffers when both directions have been blocked for long enough.
    fn rest(&mut self) {
        if self.is_resting {
            return;
        }
        let now = self.kernel.now();
        let rests_at = *self.rests_at.get_or_insert(now + REST_AFTER);
        if now >= rests_at {
            self.a_to_b.rest();
            self.b_to_a.rest();
            self.is_resting = true;
        }
    }

    /// Returns what both directions wait for.
    fn interest(&self) -> RelayInterest {
        let (forth, back) = (self.a_to_b.interest(), self.b_to_a.interest());
        let until_rest = self.rests_at.filter(|_| !self.is_resting);
        let until_rest = until_rest.map(|rests_at| rests_at.saturating_sub(self.kernel.now()));
        let times = [
            forth.timeout(),
            back.timeout(),
            self.time_limits.remaining(&self.kernel),
            until_rest,
        ];
        RelayInterest {
            a: EndInterest {
                readable: forth.source(),
                writable: back.sink(),
            },
            b: EndInterest {
                readable: back.source(),
                writable: forth.sink(),
            },
            timeout: times.into_iter().flatten().min(),
        }
    }

    fn drive(&mut self) -> Result<Ended> {
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
        let a = polled.push(self.a, interest.a.events());
        let b = polled.push(self.b, interest.b.events());
        if let Some(stop) = &self.stop {
            polled.push(stop.as_fd(), PollFlags::IN);
        }
        match self.kernel.poll(polled.fds(), interest.timeout) {
            // Only a step sees what is due.
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(errno) => {
                let error = RunError::from(CallError::new("poll", Side::Neither, errno));
                return Err(self.fail(error.before_anything_moved()));
            }
        }
        let (a, b) = (polled.found(a), polled.found(b));
        let (readable, writable) = (PollFlags::IN | BROKEN, PollFlags::OUT | BROKEN);
        self.a_to_b
            .note_polled(a.intersects(readable), b.intersects(writable));
        self.b_to_a
            .note_polled(b.intersects(readable), a.intersects(writable));
        Ok(())
    }

    /// Ends both directions, and returns the error that tells of both.
    fn fail(&mut self, error: Error) -> Error {
        // Only the first failure counts.
        error.with_relay(self.end(Ended::Failed).0)
    }

    fn finish(&mut self) -> Result<RelayReport> {
        match self.end(self.ended.unwrap_or(Ended::Stopped)) {
            (report, None) => Ok(report),
            (report, Some(error)) => Err(error.with_relay(report)),
        }
    }

    /// Ends both directions. Returns the report, and the first failure.
    fn end(&mut self, ended: Ended) -> (RelayReport, Option<Error>) {
        self.ended = Some(ended);
        let (a_to_b, forth) = self.a_to_b.finish();
        let (b_to_a, back) = self.b_to_a.finish();
        let report = RelayReport {
            a_to_b,
            b_to_a,
            ended,
        };
        (report, forth.or(back))
    }
}

/// What `poll(2)` reports of an end that is broken or hung up: the next call tells more.
const BROKEN: PollFlags = PollFlags::HUP.union(PollFlags::ERR);

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

    /// Adds a descriptor, unless nobody waits for it: it may be hung up, which would end every
    /// poll.
    fn push(&mut self, fd: BorrowedFd<'fd>, events: PollFlags) -> Option<usize> {
        if events.is_empty() {
            return None;
        }
        let index = self.len;
        self.fds[index] = PollFd::from_borrowed_fd(fd, events);
        self.len += 1;
        Some(index)
    }

    fn fds(&mut self) -> &mut [PollFd<'fd>] {
        &mut self.fds[..self.len]
    }

    /// Returns what the poll has found.
    fn found(&self, index: Option<usize>) -> PollFlags {
        index.map_or(PollFlags::empty(), |index| self.fds[index].revents())
    }
}
