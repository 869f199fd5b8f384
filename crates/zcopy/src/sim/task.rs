//! Runs transfers in the simulated kernel as a task of tokio, whose reactor is simulated, too.

use std::future::poll_fn;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use std::{io, iter};

use tokio::io::Interest;

use super::SimKernel;
use super::script::Injection;
use super::shared::Shared;
use crate::error::Error;
use crate::fan_out::FanOut;
use crate::report::Report;
use crate::sys::{Kernel, PollFd, PollFlags};
use crate::tokio::sealed::Waits;
use crate::tokio::{AsyncEnd, Timer, WatchedEnds, drive, drive_several};
use crate::transfer::Transfer;

/// The reactor of a task that waits for a source and sinks.
///
/// It believes that an end is ready from an event on, until a call within
/// [`try_io`](Waits::try_io) finds the end blocked. It learns of an event once, as `epoll(7)` tells
/// of it. If a task waits for an end that was ready all along, it hangs, and the test fails.
pub(super) struct Reactor<'k> {
    kernel: &'k SimKernel,
    ends: Shared<Vec<Registered>>,
    /// When the task wants to be woken, on the kernel's clock.
    wakes_at: Shared<Option<Duration>>,
    /// Whether calls may return `EAGAIN` although their descriptors are ready.
    has_spurious_wakeups: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Registered {
    is_ready: bool,
    /// Whether its reader has closed. The reactor never forgets that.
    is_broken: bool,
    awaited: Option<Interest>,
    /// The state of the kernel when the reactor last learnt that the end is ready.
    ready_since: Option<Happened>,
    /// The state of the kernel when a call proved that the end is not ready.
    not_ready_since: Option<Happened>,
}

/// How much has happened in the simulated kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Happened {
    clock: Duration,
    n_events: usize,
    n_effects: usize,
}

/// One end of a transfer, which waits by the simulated reactor.
pub(super) struct SimEnd<'r> {
    fd: BorrowedFd<'r>,
    events: PollFlags,
    reactor: &'r Reactor<'r>,
    /// Its place in the reactor.
    index: usize,
}

/// A timer on the simulated clock.
struct SimTimer<'r> {
    reactor: &'r Reactor<'r>,
    ends_at: Duration,
}

impl<'k> Reactor<'k> {
    pub(super) fn new(kernel: &'k SimKernel) -> Self {
        let script = &kernel.state.borrow().script;
        Self {
            kernel,
            ends: Shared::default(),
            wakes_at: Shared::default(),
            has_spurious_wakeups: [Injection::SpuriousWakeup, Injection::Stalled(0)]
                .into_iter()
                .any(|injection| script.has(injection)),
        }
    }

    /// Registers a source.
    pub(super) fn source<'r>(&'r self, fd: BorrowedFd<'r>) -> SimEnd<'r> {
        self.register(fd, PollFlags::IN)
    }

    /// Registers a sink.
    pub(super) fn sink<'r>(&'r self, fd: BorrowedFd<'r>) -> SimEnd<'r> {
        self.register(fd, PollFlags::OUT)
    }

    fn register<'r>(&'r self, fd: BorrowedFd<'r>, events: PollFlags) -> SimEnd<'r> {
        let mut ends = self.ends.borrow_mut();
        ends.push(Registered::default());
        SimEnd {
            fd,
            events,
            reactor: self,
            index: ends.len() - 1,
        }
    }

    fn happened(&self) -> Happened {
        let state = self.kernel.state.borrow();
        Happened {
            clock: state.clock,
            n_events: state.n_events,
            n_effects: state.effects.len(),
        }
    }

    /// Forgets what the task has waited for, before it is polled.
    fn begin_poll(&self) {
        self.ends
            .borrow_mut()
            .iter_mut()
            .for_each(|end| end.awaited = None);
        *self.wakes_at.borrow_mut() = None;
    }

    /// Lets time pass until something happens that the task waits for.
    fn park(&self, ends: &[&SimEnd<'_>]) {
        let wakes_at = *self.wakes_at.borrow();
        let mut indices = Vec::new();
        let mut fds = Vec::new();
        for end in ends {
            let Some(awaited) = self.ends.borrow()[end.index].awaited else {
                continue;
            };
            let events = if awaited.is_error() {
                PollFlags::empty()
            } else {
                end.events
            };
            indices.push(end.index);
            fds.push(PollFd::from_borrowed_fd(end.fd, events));
        }
        let before = self.happened();
        let timeout = wakes_at.map(|end| end.saturating_sub(self.kernel.now()));
        if self.kernel.poll(&mut fds, timeout).is_err() {
            // A signal ends a wait of the reactor, and no wait of a task.
            return self.park(ends);
        }
        let has_happened = self.happened() != before;
        for (index, fd) in indices.into_iter().zip(&fds) {
            if fd.revents().is_empty() {
                continue;
            }
            let end = &mut self.ends.borrow_mut()[index];
            let is_broken = fd.revents().intersects(PollFlags::ERR | PollFlags::HUP);
            // A reader that closes after so many bytes closes by the write that brings them.
            let has_broken = is_broken && !end.is_broken;
            let is_old = end.not_ready_since == Some(before) && !has_happened && !has_broken;
            assert!(
                !is_old || self.has_spurious_wakeups,
                "the task would hang: no event will tell that end {index} is ready"
            );
            (end.is_ready, end.ready_since) = (true, Some(self.happened()));
            end.is_broken |= is_broken;
        }
    }
}

impl<'r> SimTimer<'r> {
    fn new(reactor: &'r Reactor<'r>) -> Self {
        Self {
            reactor,
            ends_at: Duration::ZERO,
        }
    }
}

impl Timer for SimTimer<'_> {
    fn start(&mut self, timeout: Duration) {
        self.ends_at = self.reactor.kernel.now() + timeout;
    }

    fn poll_elapsed(&mut self, _: &mut Context<'_>) -> Poll<()> {
        if self.reactor.kernel.now() >= self.ends_at {
            return Poll::Ready(());
        }
        let wakes_at = &mut *self.reactor.wakes_at.borrow_mut();
        *wakes_at = Some(wakes_at.map_or(self.ends_at, |earlier| earlier.min(self.ends_at)));
        Poll::Pending
    }
}

impl AsFd for SimEnd<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd
    }
}

impl AsyncEnd for SimEnd<'_> {}

impl Waits for SimEnd<'_> {
    fn is_registered(&self) -> bool {
        true
    }

    async fn ready(&self, _: Interest) -> io::Result<()> {
        poll_fn(|_| {
            let end = &mut self.reactor.ends.borrow_mut()[self.index];
            if end.is_ready {
                return Poll::Ready(Ok(()));
            }
            end.awaited = Some(Interest::READABLE);
            Poll::Pending
        })
        .await
    }

    fn poll_ready(&self, interest: Interest, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let end = &mut self.reactor.ends.borrow_mut()[self.index];
        if interest.is_error() && end.is_ready && !end.is_broken {
            // A fan-out that waits for a reader to close forgets that the sink is writable. Of what
            // has happened since, the reactor tells.
            (end.is_ready, end.not_ready_since) = (false, end.ready_since);
        }
        let has_happened = end.is_ready && (end.is_broken || !interest.is_error());
        if has_happened {
            return Poll::Ready(Ok(()));
        }
        end.awaited = Some(interest);
        Poll::Pending
    }

    fn try_io(&self, _: Interest, f: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if !self.reactor.ends.borrow()[self.index].is_ready {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let before = self.reactor.happened();
        let outcome = f();
        let is_blocked = outcome
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        // An event that happens meanwhile is not forgotten.
        if is_blocked && self.reactor.happened() == before {
            let end = &mut self.reactor.ends.borrow_mut()[self.index];
            (end.is_ready, end.not_ready_since) = (false, Some(before));
        }
        outcome
    }
}

/// Runs a transfer as a task. Drops its future each time that it has been polled `polls` times, and
/// goes on with another one.
pub(super) fn run_in_task<'a>(
    kernel: &'a SimKernel,
    transfer: Transfer<'a, SimEnd<'a>, SimEnd<'a>>,
    reactor: &'a Reactor<'a>,
    polls: usize,
) -> Result<Report, Error> {
    let mut parts = transfer.start_on(kernel)?;
    let (steps, ends) = parts.split_mut();
    let (source, sink) = ends.ends();
    loop {
        let driving = drive(kernel, steps, ends, SimTimer::new(reactor));
        if let Some(ended) = poll_to_end(driving, reactor, &[source, sink], polls) {
            ended?;
            return parts.value_mut().finish();
        }
    }
}

/// Runs a fan-out as a task, as [`run_in_task`] does. `sinks` are its sinks.
pub(super) fn run_several_in_task<'a>(
    kernel: &'a SimKernel,
    fan_out: FanOut<'a, SimEnd<'a>>,
    sinks: &'a [SimEnd<'a>],
    reactor: &'a Reactor<'a>,
    polls: usize,
) -> Result<Report, Error> {
    let mut parts = fan_out.start_on(kernel)?;
    let (steps, ends) = parts.split_mut();
    let (source, _) = ends.ends();
    let awaited: Vec<_> = iter::once(source).chain(sinks).collect();
    loop {
        let watched = WatchedEnds::new(kernel, (source, ends.source_fd()), sinks);
        let driving = drive_several(steps, watched, SimTimer::new(reactor));
        if let Some(ended) = poll_to_end(driving, reactor, &awaited, polls) {
            ended?;
            return parts.value_mut().finish();
        }
    }
}

/// Polls a future this many times at most. Drops it then, and returns `None`.
fn poll_to_end<T>(
    driving: impl Future<Output = T>,
    reactor: &Reactor<'_>,
    ends: &[&SimEnd<'_>],
    polls: usize,
) -> Option<T> {
    let mut driving = pin!(driving);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    for _ in 0..polls {
        reactor.begin_poll();
        match driving.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return Some(output),
            // It has let other tasks have their turn, and waits for nothing.
            Poll::Pending if woken.0.swap(false, Ordering::Relaxed) => {}
            Poll::Pending => reactor.park(ends),
        }
    }
    None
}

/// Whether a task has woken itself.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
