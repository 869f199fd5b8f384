//! The steps of an engine, one at a time.

#[cfg(feature = "tokio")]
use std::collections::HashMap;
#[cfg(feature = "tokio")]
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use super::{Interest, Progressed};
use crate::call_error::CallError;
use crate::context::Context;
use crate::drive::{self, Over, Pause, Taken};
use crate::engine::Engine;
use crate::error::{Error, RunError};
#[cfg(feature = "tokio")]
use crate::fd_info::Kind;
use crate::progress::Progress;
use crate::report::{Ended, Report};
use crate::side::Side;
#[cfg(feature = "tokio")]
use crate::stop::Stop;
use crate::sys::{Blocking, Errno, Kernel};
use crate::wait::{Awaited, Event, PollState, Readiness, Wait};

/// An engine whose steps the caller takes.
pub(crate) struct Steps<'a, K: Kernel> {
    engine: Box<dyn Engine<'a, Kernel = K> + Send + 'a>,
    /// The wait before the next step.
    waiting: Option<Waiting>,
    /// The side that it waits for, as an observer gets it.
    blocked_side: Side,
    /// The events that it awaits at sinks, with their indices.
    awaited_sinks: Vec<(usize, Event)>,
    ended: Option<Ended>,
    /// Whether the engine has still to be finished. Not after a panic of a callback: the state may
    /// be that in the middle of a step.
    must_finish: bool,
}

/// The wait before a step.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Until when the session sleeps first, on the kernel's clock.
    sleeps_until: Option<Duration>,
    /// The endpoints that it polls then.
    readiness: Option<Readiness>,
    /// Whether it has begun in this step. Then there is nothing to recheck yet.
    is_new: bool,
}

/// The belief of a reactor about one end.
#[cfg(feature = "tokio")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Belief {
    Ready,
    /// It tells when the end becomes ready.
    NotReady,
    /// Nothing: the end is not registered yet.
    Unknown,
}

/// The result of looking whether a wait is over.
enum Checked {
    Over(Over),
    Missing(Interest),
}

impl<'a, K: Kernel> Steps<'a, K> {
    /// Returns the steps of an engine.
    pub(crate) fn new(engine: impl Engine<'a, Kernel = K> + Send + 'a) -> Self {
        Self {
            engine: Box::new(engine),
            waiting: None,
            blocked_side: Side::Neither,
            awaited_sinks: Vec::new(),
            ended: None,
            must_finish: true,
        }
    }

    /// Takes one step: see [`Session::step`](super::Session::step).
    pub(crate) fn step(&mut self, max: u64) -> Result<Progressed, Error> {
        self.step_or_wait(max, Blocking::Nonblocking)
    }

    /// Takes steps until the end, and waits between them.
    pub(crate) fn drive(&mut self) -> Result<Ended, Error> {
        loop {
            if let Progressed::Ended(ended) = self.step_or_wait(u64::MAX, Blocking::MaySleep)? {
                return Ok(ended);
            }
        }
    }

    /// Takes one step, and waits for it if it may. After an error the engine is finished.
    fn step_or_wait(&mut self, max: u64, blocking: Blocking) -> Result<Progressed, Error> {
        if let Some(ended) = self.ended {
            return Ok(Progressed::Ended(ended));
        }
        if !self.must_finish {
            // A callback has panicked in the middle of a step.
            return Ok(Progressed::Ended(Ended::Failed));
        }
        self.awaited_sinks.clear();
        self.must_finish = false;
        self.engine.context().max_step = max.max(1);
        let progressed = self.try_step(blocking);
        self.must_finish = true;
        match progressed {
            Ok(progressed) => {
                if let Progressed::Ended(ended) = progressed {
                    self.ended = Some(ended);
                }
                Ok(progressed)
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    fn try_step(&mut self, blocking: Blocking) -> Result<Progressed, RunError> {
        let before = self.engine.progress(None).bytes;
        loop {
            if let Some(waiting) = self.waiting {
                match self.check(waiting, blocking)? {
                    Checked::Over(Over::Ready) => self.waiting = None,
                    Checked::Over(Over::Ended(ended)) => return Ok(Progressed::Ended(ended)),
                    Checked::Missing(interest) => return Ok(self.blocked(interest)),
                }
            }
            match drive::take_step(&mut *self.engine)? {
                Taken::Step => {
                    let moved = self.engine.progress(None).bytes - before;
                    if moved > 0 {
                        return Ok(Progressed::Moved(moved));
                    }
                }
                Taken::Ended(ended) => return Ok(Progressed::Ended(ended)),
                Taken::Wait(wait) => {
                    let waiting = self.begin(wait);
                    self.waiting = Some(waiting);
                    // A call has just found the endpoint not ready, so that a poll is of no use.
                    let is_blocked = waiting.readiness.is_none_or(|it| it.is_certain);
                    if is_blocked && blocking == Blocking::Nonblocking {
                        let interest = interest(self.engine.context(), waiting);
                        // An endpoint that never becomes ready is not waited for: the next call
                        // returns the reason.
                        if interest != Interest::default() {
                            return Ok(self.blocked(interest));
                        }
                    }
                }
            }
        }
    }

    /// Begins a wait.
    fn begin(&mut self, wait: Wait) -> Waiting {
        let (time, readiness) = match wait {
            Wait::Time(time) => (Some(time), None),
            Wait::Readiness(readiness) => (readiness.delay, Some(readiness)),
        };
        let kernel = &self.engine.context().kernel;
        Waiting {
            sleeps_until: time.map(|time| kernel.now().saturating_add(time)),
            readiness,
            is_new: true,
        }
    }

    /// Notes which sinks the next step waits for.
    fn blocked(&mut self, interest: Interest) -> Progressed {
        self.waiting = self.waiting.map(|waiting| Waiting {
            is_new: false,
            ..waiting
        });
        let blocked_side = drive::pending_side(&self.engine.context().awaited);
        self.blocked_side = blocked_side.unwrap_or(Side::Neither);
        let Self {
            engine,
            awaited_sinks,
            ..
        } = self;
        let sinks = drive::pending(&engine.context().awaited).filter(|it| it.side == Side::Sink);
        // A session that sleeps first awaits no sink that is not ready, and still those that break.
        let sinks = sinks.filter(|it| interest.sink || it.event == Event::Broken);
        awaited_sinks.clear();
        awaited_sinks.extend(sinks.map(|it| (it.index, it.event)));
        Progressed::Blocked(interest)
    }

    /// Returns the event that the next step awaits at the sink with this index.
    pub(crate) fn awaited_event(&self, index: usize) -> Option<Event> {
        let mut awaited = self.awaited_sinks.iter();
        awaited.find(|it| it.0 == index).map(|it| it.1)
    }

    /// Looks whether the wait is over. Waits for that, if it may, until a tick or a signal.
    fn check(&mut self, mut waiting: Waiting, blocking: Blocking) -> Result<Checked, RunError> {
        let may_wait = blocking == Blocking::MaySleep;
        let progress = self.engine.progress(Some(Side::Neither));
        let context = self.engine.context();
        if let Some(end) = waiting.sleeps_until {
            let left = end.saturating_sub(context.kernel.now());
            let pause = match waiting.readiness {
                Some(_) => Pause::BeforeRetry,
                None => Pause::ForRate,
            };
            let over = if may_wait && !left.is_zero() {
                drive::sleep(context, left, pause, &progress)
            } else {
                drive::awake(context, pause, &progress)
            };
            if over != Over::Ready {
                return Ok(Checked::Over(over));
            }
            if context.kernel.now() < end {
                return Ok(Checked::Missing(interest(context, waiting)));
            }
            waiting.sleeps_until = None;
            self.waiting = Some(waiting);
        }
        let Some(mut readiness) = waiting.readiness else {
            return Ok(Checked::Over(Over::Ready));
        };
        if waiting.is_new && !may_wait {
            // A recheck ends the wait, and the engine would begin the same one again at once.
            readiness.recheck = None;
        }
        let timeout = if may_wait {
            drive::until_check(context, readiness)
        } else {
            Some(Duration::ZERO)
        };
        let over = drive::check(context, readiness, &progress, timeout)?;
        Ok(over.map_or_else(
            || Checked::Missing(interest(context, waiting)),
            Checked::Over,
        ))
    }

    /// Notes that a poll has found these sides ready, if a step waits for them.
    pub(crate) fn note_ready(&mut self, source: bool, sink: bool) {
        let awaited = &mut self.engine.context().awaited;
        for awaited in awaited.iter_mut().filter(|awaited| awaited.is_pending()) {
            let is_ready = match awaited.side {
                Side::Source => source,
                Side::Sink | Side::Neither => sink,
            };
            if is_ready {
                awaited.state = PollState::Polled(awaited.events());
            }
        }
    }

    /// Notes what a reactor believes, if a step waits for it. An end in blocking mode is polled all
    /// the same: its call would sleep if the belief were wrong.
    #[cfg(feature = "tokio")]
    pub(crate) fn note_beliefs(&mut self, source: Belief, sink: Belief) {
        let (mut source, mut sink) = (source == Belief::Ready, sink == Belief::Ready);
        self.engine.for_each_endpoint(&mut |side, endpoint| {
            let is_ready = match side {
                Side::Source => &mut source,
                Side::Sink | Side::Neither => &mut sink,
            };
            *is_ready &= endpoint.info.nonblocking;
        });
        self.note_ready(source, sink);
    }

    /// Returns whether a step may wait for a disk.
    #[cfg(feature = "tokio")]
    pub(crate) fn needs_disk(&mut self) -> bool {
        let mut needs_disk = false;
        self.engine.for_each_endpoint(&mut |_, endpoint| {
            needs_disk |= matches!(endpoint.info.kind, Kind::Regular | Kind::Block);
        });
        needs_disk
    }

    /// Opens a duplicate of each descriptor, and returns it with the number of that descriptor.
    ///
    /// # Errors
    ///
    /// Those of `dup(2)`.
    #[cfg(feature = "tokio")]
    pub(crate) fn duplicate_fds(&mut self) -> Result<HashMap<RawFd, OwnedFd>, CallError> {
        let mut duplicates = HashMap::new();
        let mut failed = None;
        self.engine.for_each_endpoint(&mut |side, endpoint| {
            if duplicates.contains_key(&endpoint.fd.as_raw_fd()) || failed.is_some() {
                return;
            }
            match endpoint.fd.try_clone_to_owned() {
                Ok(duplicate) => {
                    duplicates.insert(endpoint.fd.as_raw_fd(), duplicate);
                }
                Err(error) => {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::MFILE);
                    failed = Some(CallError::new("dup", side, errno));
                }
            }
        });
        failed.map_or(Ok(duplicates), Err)
    }

    /// Uses the descriptors that `exchange` returns from now on, and no longer the ones before.
    /// Both are of the same open file.
    #[cfg(feature = "tokio")]
    pub(crate) fn exchange_fds(&mut self, exchange: impl Fn(BorrowedFd<'a>) -> BorrowedFd<'a>) {
        self.engine
            .for_each_endpoint(&mut |_, endpoint| endpoint.fd = exchange(endpoint.fd));
        // The awaited endpoints are the only other copies.
        for awaited in &mut self.engine.context().awaited {
            awaited.fd = exchange(awaited.fd);
        }
    }

    /// Returns whether the next step waits for the rate, and for no endpoint.
    pub(crate) fn waits_for_rate(&self) -> bool {
        self.waiting
            .is_some_and(|waiting| waiting.readiness.is_none())
    }

    /// Returns the caller's `Stop`.
    #[cfg(feature = "tokio")]
    pub(crate) fn stop(&mut self) -> Option<Stop> {
        self.engine.context().stop.clone()
    }

    /// Gives back pipe and buffer while no byte is in flight.
    pub(crate) fn rest(&mut self) {
        self.engine.rest();
    }

    pub(crate) fn progress(&self) -> Progress {
        self.engine
            .progress(self.waiting.map(|_| self.blocked_side))
    }

    /// Ends the transfer: see [`Session::finish`](super::Session::finish).
    pub(crate) fn finish(&mut self) -> Result<Report, Error> {
        let outcome = match self.ended {
            Some(ended) => Ok(ended),
            None if self.must_finish => Ok(Ended::Stopped),
            // A callback has panicked in the middle of a step.
            None => Err(CallError::new("callback", Side::Neither, Errno::CANCELED).into()),
        };
        self.must_finish = false;
        drive::finish(&mut *self.engine, outcome)
    }

    /// Ends the transfer by this failure.
    pub(crate) fn fail(&mut self, error: RunError) -> Error {
        self.must_finish = false;
        self.ended = Some(Ended::Failed);
        match drive::finish(&mut *self.engine, Err(error)) {
            Err(error) => error,
            Ok(report) => Error::new(error, report),
        }
    }
}

impl<K: Kernel> Drop for Steps<'_, K> {
    fn drop(&mut self) {
        if self.must_finish {
            // No caller is left to learn of a failure.
            let _ = self.finish();
        }
    }
}

/// Returns what the caller has to wait for.
fn interest<K: Kernel>(context: &Context<'_, K>, waiting: Waiting) -> Interest {
    if let Some(end) = waiting.sleeps_until {
        let left = end.saturating_sub(context.kernel.now());
        let earlier = [
            context.pacer.until_tick(&context.kernel),
            context.time_limits.until_deadline(&context.kernel),
        ];
        return Interest {
            timeout: earlier.into_iter().flatten().chain([left]).min(),
            ..Interest::default()
        };
    }
    Interest {
        source: wanted(context).any(|awaited| awaited.side == Side::Source),
        sink: wanted(context).any(|awaited| awaited.side == Side::Sink),
        timeout: waiting
            .readiness
            .and_then(|readiness| drive::until_check(context, readiness)),
    }
}

/// Returns the endpoints that have still to become ready. Those that are only watched are broken
/// when they answer, and stay writable meanwhile.
fn wanted<'s, 'fd, K>(context: &'s Context<'fd, K>) -> impl Iterator<Item = &'s Awaited<'fd>> {
    let pending = drive::pending(&context.awaited);
    pending.filter(|awaited| awaited.event == Event::Ready)
}
