//! The blocking driver: calls an engine step by step, and sleeps in `poll(2)` when the engine asks.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::call_error::CallError;
use crate::context::Context;
use crate::engine::{Engine, Flow};
use crate::error::{Error, RunError};
use crate::progress::Progress;
use crate::report::{Ended, Report};
use crate::side::Side;
use crate::sys::{Errno, Kernel, PollFd};
use crate::wait::{Awaited, Interest, PollState, Readiness, Until, Wait};

/// Runs an engine to its end, and returns the report.
pub(crate) fn run<'a, E: Engine<'a>>(engine: &mut E) -> Result<Report, Error> {
    let mut outcome = drive(engine);
    if let Ok(Ended::Stopped) = outcome {
        outcome = engine.fill_reserved().map(|()| Ended::Stopped);
    }
    engine.finish(outcome)
}

fn drive<'a, E: Engine<'a>>(engine: &mut E) -> Result<Ended, RunError> {
    loop {
        let verdict = match engine.advance()? {
            Flow::Observe if !engine.context().pacer.observes() => continue,
            Flow::Observe => {
                let progress = engine.progress(None);
                let Context { pacer, kernel, .. } = engine.context();
                pacer.observe(kernel, &progress)
            }
            Flow::Advance => continue,
            Flow::Wait(Wait::Time(time)) => {
                let progress = engine.progress(Some(Side::Neither));
                sleep(engine.context(), time, &progress)
            }
            Flow::Wait(Wait::Readiness(readiness)) => {
                let progress = engine.progress(Some(Side::Neither));
                wait(engine.context(), readiness, progress)?
            }
            Flow::Ended(ended) => return Ok(ended),
        };
        if verdict.is_break() {
            return Ok(Ended::Stopped);
        }
    }
}

/// Polls the awaited endpoints, and calls the observer at every tick meanwhile.
///
/// Returns when enough are ready, or when one is broken or has timed out. With a time to recheck,
/// it returns after every poll that no signal ended.
fn wait<K: Kernel>(
    context: &mut Context<'_, K>,
    readiness: Readiness,
    progress: Progress,
) -> Result<ControlFlow<()>, RunError> {
    if let Some(delay) = readiness.delay
        && sleep_all(context, delay, &progress).is_break()
    {
        return Ok(ControlFlow::Break(()));
    }
    loop {
        let Some(blocked) = pending_side(&context.awaited) else {
            return Ok(ControlFlow::Continue(()));
        };
        let timeout = [
            context.pacer.until_tick(&context.kernel),
            until_deadline(context),
            readiness.recheck,
        ];
        let wakeup = poll(context, timeout.into_iter().flatten().min())?;
        if is_over(&context.awaited, readiness.until) {
            return Ok(ControlFlow::Continue(()));
        }
        let blocked = pending_side(&context.awaited).unwrap_or(blocked);
        let progress = Progress {
            blocked: Some(blocked),
            ..progress
        };
        let Context { pacer, kernel, .. } = &mut *context;
        if pacer.observe_if_due(kernel, &progress).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if mark_timed_out(context) || readiness.recheck.is_some() && wakeup == Wakeup::Poll {
            return Ok(ControlFlow::Continue(()));
        }
    }
}

/// Returns the side of the endpoints that are still waited for, as [`Progress::blocked`] reports
/// it: [`Side::Neither`] if they are on both sides. `None` if there are none.
fn pending_side(awaited: &[Awaited<'_>]) -> Option<Side> {
    let wanted = pending(awaited).filter(|awaited| awaited.interest == Interest::Ready);
    wanted
        .map(|awaited| awaited.side)
        .reduce(|one, other| if one == other { one } else { Side::Neither })
}

/// Returns the endpoints whose state is not known yet.
fn pending<'s, 'fd>(awaited: &'s [Awaited<'fd>]) -> impl Iterator<Item = &'s Awaited<'fd>> {
    awaited.iter().filter(|awaited| awaited.is_pending())
}

/// Returns true if enough endpoints are ready, or if one is broken.
fn is_over(awaited: &[Awaited<'_>], until: Until) -> bool {
    let is_polled = |awaited: &Awaited<'_>| matches!(awaited.state, PollState::Polled(_));
    let mut wanted = awaited.iter().filter(|a| a.interest == Interest::Ready);
    let is_ready = match until {
        Until::EachReady => wanted.all(is_polled),
        Until::OneReady => wanted.any(is_polled),
    };
    let mut watched = awaited.iter().filter(|a| a.interest == Interest::Broken);
    is_ready || watched.any(is_polled)
}

/// Returns the time until the first socket's own time-out expires.
fn until_deadline<K: Kernel>(context: &Context<'_, K>) -> Option<Duration> {
    let deadlines = pending(&context.awaited).filter_map(|awaited| awaited.deadline);
    let deadline = deadlines.min()?;
    Some(deadline.saturating_sub(context.kernel.now()))
}

/// The reason why a poll returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wakeup {
    /// An endpoint or the time-out.
    Poll,
    Signal,
}

/// Polls the pending endpoints once.
fn poll<K: Kernel>(
    context: &mut Context<'_, K>,
    timeout: Option<Duration>,
) -> Result<Wakeup, RunError> {
    let polled = &mut context.polled;
    polled.clear();
    polled.extend(pending(&context.awaited).map(|a| PollFd::from_borrowed_fd(a.fd, a.events())));
    match context.kernel.poll(polled, timeout) {
        Ok(_) => {}
        Err(Errno::INTR) => {
            context.pacer.interrupt();
            return Ok(Wakeup::Signal);
        }
        Err(errno) => return Err(CallError::new("poll", Side::Neither, errno).into()),
    }
    let pending = context.awaited.iter_mut().filter(|a| a.is_pending());
    for (awaited, polled) in pending.zip(&context.polled) {
        let events = polled.revents();
        if !events.is_empty() {
            awaited.state = PollState::Polled(events);
        }
    }
    Ok(Wakeup::Poll)
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
fn sleep_all<K: Kernel>(
    context: &mut Context<'_, K>,
    time: Duration,
    progress: &Progress,
) -> ControlFlow<()> {
    let end = context.kernel.now() + time;
    let left = |kernel: &K| end.checked_sub(kernel.now()).filter(|left| !left.is_zero());
    while let Some(left) = left(&context.kernel) {
        sleep(context, left, progress)?;
    }
    ControlFlow::Continue(())
}

/// Sleeps for `time` or until the next tick, at which it calls the observer.
fn sleep<K: Kernel>(
    context: &mut Context<'_, K>,
    time: Duration,
    progress: &Progress,
) -> ControlFlow<()> {
    let Context { pacer, kernel, .. } = context;
    let timeout = pacer.until_tick(kernel).map_or(time, |tick| tick.min(time));
    // The pacer decides what to do, also after an error.
    if kernel.poll(&mut [], Some(timeout)) == Err(Errno::INTR) {
        pacer.interrupt();
    }
    pacer.observe_if_due(kernel, progress)
}
