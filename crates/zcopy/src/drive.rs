//! The blocking driver: takes an engine's steps, and sleeps in `poll(2)` when the engine asks.
//!
//! [`take_step`] and [`check`] never sleep unless they are told to, and serve
//! [`Session`](crate::Session) as well, which leaves the sleep to its caller.

use std::os::fd::AsFd;
use std::time::Duration;

use crate::call_error::CallError;
use crate::context::{Context, RETRY_DELAY};
use crate::endpoint::PolledError;
use crate::engine::{Engine, Flow};
use crate::error::{Error, RunError};
use crate::progress::Progress;
use crate::report::{Ended, Report};
use crate::side::Side;
use crate::stop::Stop;
use crate::sys::{self, Errno, Kernel, PollFd, PollFlags};
use crate::wait::{Awaited, Event, PollState, Readiness, Until, Wait};

/// The result of one step of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The next step can follow at once. Bytes may have moved.
    Step,
    Wait(Wait),
    Ended(Ended),
}

/// The reason why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The engine has to be called again: enough endpoints are ready, one is broken or has timed
    /// out, or the engine wants to look again.
    Ready,
    Ended(Ended),
}

/// Runs an engine to its end, and returns the report.
pub(crate) fn run<'a, E: Engine<'a> + ?Sized>(engine: &mut E) -> Result<Report, Error> {
    let outcome = run_to_end(engine);
    finish(engine, outcome)
}

/// Ends a transfer: fills what has to be filled, gives back what it holds, and returns the report.
pub(crate) fn finish<'a, E: Engine<'a> + ?Sized>(
    engine: &mut E,
    mut outcome: Result<Ended, RunError>,
) -> Result<Report, Error> {
    if let Ok(ended @ (Ended::Stopped | Ended::TimedOut)) = outcome {
        outcome = engine.fill_reserved().map(|()| ended);
    }
    engine.finish(outcome)
}

fn run_to_end<'a, E: Engine<'a> + ?Sized>(engine: &mut E) -> Result<Ended, RunError> {
    loop {
        let over = match take_step(engine)? {
            Taken::Step => continue,
            Taken::Ended(ended) => return Ok(ended),
            Taken::Wait(Wait::Time(time)) => {
                let progress = engine.progress(Some(Side::Neither));
                sleep(engine.context(), time, Pause::ForRate, &progress)
            }
            Taken::Wait(Wait::Readiness(readiness)) => {
                let progress = engine.progress(Some(Side::Neither));
                wait(engine.context(), readiness, progress)?
            }
        };
        if let Over::Ended(ended) = over {
            return Ok(ended);
        }
    }
}

/// Takes one step of an engine, and calls the observer after it.
#[inline]
pub(crate) fn take_step<'a, E: Engine<'a> + ?Sized>(engine: &mut E) -> Result<Taken, RunError> {
    if let Some(ended) = engine.context().ended_early() {
        return Ok(Taken::Ended(ended));
    }
    let flow = engine.advance()?;
    match flow {
        Flow::Observe | Flow::Advance => engine.context().note_activity(),
        Flow::Wait(wait) => return Ok(Taken::Wait(wait)),
        Flow::Ended(ended) => return Ok(Taken::Ended(ended)),
    }
    if flow == Flow::Observe && engine.context().pacer.observes() {
        let progress = engine.progress(None);
        let Context { pacer, kernel, .. } = engine.context();
        if pacer.observe(kernel, &progress).is_break() {
            return Ok(Taken::Ended(Ended::Stopped));
        }
    }
    Ok(Taken::Step)
}

/// Polls the awaited endpoints until the wait is over, and calls the observer at every tick
/// meanwhile.
fn wait<K: Kernel>(
    context: &mut Context<'_, K>,
    readiness: Readiness,
    progress: Progress,
) -> Result<Over, RunError> {
    if let Some(delay) = readiness.delay
        && let ended @ Over::Ended(_) = sleep_all(context, delay, &progress)
    {
        return Ok(ended);
    }
    loop {
        let timeout = until_check(context, readiness);
        if let Some(over) = check(context, readiness, &progress, timeout)? {
            return Ok(over);
        }
    }
}

/// Returns the time after which a wait has to be checked although no endpoint is ready.
pub(crate) fn until_check<K: Kernel>(
    context: &Context<'_, K>,
    readiness: Readiness,
) -> Option<Duration> {
    let times = [
        context.pacer.until_tick(&context.kernel),
        until_socket_time_out(context),
        context.time_limits.remaining(&context.kernel),
        readiness.recheck,
    ];
    times.into_iter().flatten().min()
}

/// Polls the awaited endpoints once, for at most `timeout`, and calls the observer if a tick is
/// due. Returns `None` if the wait goes on.
///
/// With a time to recheck, the wait is over after every poll that no signal ended.
pub(crate) fn check<K: Kernel>(
    context: &mut Context<'_, K>,
    readiness: Readiness,
    progress: &Progress,
    timeout: Option<Duration>,
) -> Result<Option<Over>, RunError> {
    let Some(blocked) = pending_side(&context.awaited) else {
        return Ok(Some(Over::Ready));
    };
    // The caller of a session may have polled.
    if is_over(&context.awaited, readiness.until) {
        return Ok(Some(Over::Ready));
    }
    let wakeup = poll(context, timeout)?;
    if is_over(&context.awaited, readiness.until) {
        return Ok(Some(Over::Ready));
    }
    let blocked = pending_side(&context.awaited).unwrap_or(blocked);
    let progress = Progress {
        blocked: Some(blocked),
        ..*progress
    };
    let Context { pacer, kernel, .. } = &mut *context;
    if pacer.observe_if_due(kernel, &progress).is_break() {
        return Ok(Some(Over::Ended(Ended::Stopped)));
    }
    if let Some(ended) = context.ended_early() {
        return Ok(Some(Over::Ended(ended)));
    }
    let left = context.time_limits.remaining(&context.kernel);
    if left.is_some_and(|left| left.is_zero()) {
        return Ok(Some(Over::Ended(Ended::TimedOut)));
    }
    if mark_timed_out(context) || readiness.recheck.is_some() && wakeup == Wakeup::Poll {
        return Ok(Some(Over::Ready));
    }
    Ok(None)
}

/// Returns the side of the endpoints that are still waited for, as [`Progress::blocked`] reports
/// it: [`Side::Neither`] if they are on both sides. `None` if there are none.
pub(crate) fn pending_side(awaited: &[Awaited<'_>]) -> Option<Side> {
    let wanted = pending(awaited).filter(|awaited| awaited.event == Event::Ready);
    wanted
        .map(|awaited| awaited.side)
        .reduce(|one, other| if one == other { one } else { Side::Neither })
}

/// Returns the endpoints whose state is not known yet.
pub(crate) fn pending<'s, 'fd>(
    awaited: &'s [Awaited<'fd>],
) -> impl Iterator<Item = &'s Awaited<'fd>> {
    awaited.iter().filter(|awaited| awaited.is_pending())
}

/// Returns true if enough endpoints are ready, or if one is broken or has failed.
fn is_over(awaited: &[Awaited<'_>], until: Until) -> bool {
    let is_polled = |awaited: &Awaited<'_>| matches!(awaited.state, PollState::Polled(_));
    let has_failed = |awaited: &Awaited<'_>| matches!(awaited.state, PollState::Failed(_));
    let mut wanted = awaited.iter().filter(|a| a.event == Event::Ready);
    let is_ready = match until {
        Until::EachReady => wanted.all(is_polled),
        Until::OneReady => wanted.any(is_polled),
    };
    let mut watched = awaited.iter().filter(|a| a.event == Event::Broken);
    is_ready || watched.any(is_polled) || awaited.iter().any(has_failed)
}

/// Returns the time until the first socket's own time-out expires.
fn until_socket_time_out<K: Kernel>(context: &Context<'_, K>) -> Option<Duration> {
    let deadlines = pending(&context.awaited).filter_map(|awaited| awaited.deadline);
    let deadline = deadlines.min()?;
    Some(deadline.saturating_sub(context.kernel.now()))
}

/// The reason why a poll returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wakeup {
    /// An endpoint, the caller's [`Stop`] or the time-out.
    Poll,
    Signal,
}

/// Polls the pending endpoints once, and the caller's `Stop` with them.
fn poll<K: Kernel>(
    context: &mut Context<'_, K>,
    timeout: Option<Duration>,
) -> Result<Wakeup, RunError> {
    let mut polled: Vec<PollFd<'_>> = std::mem::take(&mut context.polled);
    polled.extend(pending(&context.awaited).map(|a| PollFd::from_borrowed_fd(a.fd, a.events())));
    polled.extend(context.stop.as_ref().map(stop_event));
    let outcome = context.kernel.poll(&mut polled, timeout);
    let mut has_false_error = false;
    let pending = context.awaited.iter_mut().filter(|a| a.is_pending());
    for (awaited, polled) in pending.zip(&polled) {
        let events = polled.revents();
        let error = match awaited.event {
            Event::Ready => PolledError::of(&context.kernel, awaited.fd, events),
            Event::Broken => PolledError::Pending,
        };
        match error {
            PolledError::Pending if events.is_empty() => {}
            PolledError::Pending => awaited.state = PollState::Polled(events),
            PolledError::False => has_false_error = true,
            PolledError::Cleared(errno) => awaited.state = PollState::Failed(errno),
        }
    }
    if has_false_error && timeout != Some(Duration::ZERO) {
        // The next poll would return at once, too.
        let pause = timeout.map_or(RETRY_DELAY, |timeout| timeout.min(RETRY_DELAY));
        let _ = sleep_unless_stopped(&context.kernel, context.stop.as_ref(), pause);
    }
    context.polled = emptied(polled);
    match outcome {
        Ok(_) => Ok(Wakeup::Poll),
        Err(Errno::INTR) => {
            context.pacer.interrupt();
            Ok(Wakeup::Signal)
        }
        Err(errno) => Err(CallError::new("poll", Side::Neither, errno).into()),
    }
}

/// Returns what `poll(2)` watches for the caller's `Stop`.
fn stop_event(stop: &Stop) -> PollFd<'_> {
    PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN)
}

/// Empties an array, and keeps its memory for other descriptors. (`collect` reuses the memory of a
/// vector whose elements have the same layout.)
fn emptied(mut polled: Vec<PollFd<'_>>) -> Vec<PollFd<'static>> {
    polled.clear();
    let none = polled
        .into_iter()
        .map(|_| unreachable!("it has been cleared"));
    none.collect()
}

/// Marks the sockets whose own time-outs have expired. Returns true if there are any.
fn mark_timed_out<K: Kernel>(context: &mut Context<'_, K>) -> bool {
    let mut has_expired = false;
    for awaited in context.awaited.iter_mut().filter(|a| a.is_pending()) {
        let has_passed = |deadline| deadline <= context.kernel.now();
        if awaited.deadline.is_some_and(has_passed) {
            awaited.state = PollState::TimedOut;
            has_expired = true;
        }
    }
    has_expired
}

/// Sleeps for `time`, and calls the observer at every tick meanwhile.
fn sleep_all<K: Kernel>(context: &mut Context<'_, K>, time: Duration, progress: &Progress) -> Over {
    let end = context.kernel.now() + time;
    let left = |kernel: &K| end.checked_sub(kernel.now()).filter(|left| !left.is_zero());
    while let Some(left) = left(&context.kernel) {
        if let ended @ Over::Ended(_) = sleep(context, left, Pause::BeforeRetry, progress) {
            return ended;
        }
    }
    Over::Ready
}

/// Sleeps for `time`, or until the next tick, at which it calls the observer, or until the transfer
/// is stopped or its deadline passes.
pub(crate) fn sleep<K: Kernel>(
    context: &mut Context<'_, K>,
    time: Duration,
    pause: Pause,
    progress: &Progress,
) -> Over {
    let (pacer, kernel) = (&context.pacer, &context.kernel);
    let earlier = [
        pacer.until_tick(kernel),
        context.time_limits.until_deadline(kernel),
    ];
    let timeout = earlier.into_iter().flatten().fold(time, Duration::min);
    // The pacer decides what to do, also after an error.
    let slept = sleep_unless_stopped(kernel, context.stop.as_ref(), timeout);
    if slept == Err(Errno::INTR) {
        context.pacer.interrupt();
    }
    awake(context, pause, progress)
}

/// Sleeps for `time`, or until a signal comes or the caller uses its `Stop`.
pub(crate) fn sleep_unless_stopped<K: Kernel>(
    kernel: &K,
    stop: Option<&Stop>,
    time: Duration,
) -> sys::Result<usize> {
    match stop.map(stop_event) {
        Some(event) => match kernel.poll(&mut [event], Some(time)) {
            // A limit of no descriptors forbids to poll one.
            Err(Errno::INVAL) => kernel.poll(&mut [], Some(time.min(RETRY_DELAY))),
            polled => polled,
        },
        None => kernel.poll(&mut [], Some(time)),
    }
}

/// Why a transfer sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// For its own rate. That time is not idle.
    ForRate,
    /// Because calls have blocked although their endpoints poll as ready.
    BeforeRetry,
}

/// Calls the observer if a tick is due or a signal came, and looks whether the transfer ends.
pub(crate) fn awake<K: Kernel>(
    context: &mut Context<'_, K>,
    pause: Pause,
    progress: &Progress,
) -> Over {
    let Context { pacer, kernel, .. } = context;
    if pacer.observe_if_due(kernel, progress).is_break() {
        return Over::Ended(Ended::Stopped);
    }
    if pause == Pause::ForRate {
        context.time_limits.note_activity(&context.kernel);
    }
    if let Some(ended) = context.ended_early() {
        return Over::Ended(ended);
    }
    let left = context.time_limits.remaining(&context.kernel);
    match left {
        Some(left) if left.is_zero() => Over::Ended(Ended::TimedOut),
        _ => Over::Ready,
    }
}
