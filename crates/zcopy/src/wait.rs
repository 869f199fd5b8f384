//! What an engine waits for. The engine describes the wait, and a driver performs it.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::call_error::CallError;
use crate::side::Side;
use crate::sys::{Errno, PollFlags};

/// What has to happen before the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// This much time passes. An observer that is called meanwhile may change the rate, so a driver
    /// may call the engine again at every tick.
    Time(Duration),
    /// Endpoints become ready.
    Readiness(Readiness),
}

/// Which of the [awaited](Awaited) endpoints have to become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) until: Until,
    /// How long to sleep before the poll, if it would return at once and the step block again.
    pub(crate) delay: Option<Duration>,
    /// How long to poll at most before the engine is called again. A signal begins the time anew.
    pub(crate) recheck: Option<Duration>,
    /// Whether a call has just found the endpoints not ready. If not, they may be ready at once.
    pub(crate) is_certain: bool,
}

/// How many endpoints end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Each endpoint has been ready once.
    EachReady,
    /// One endpoint is ready.
    OneReady,
}

/// An endpoint that an engine waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited<'fd> {
    pub(crate) fd: BorrowedFd<'fd>,
    pub(crate) side: Side,
    /// The index of the sink, if there are several.
    pub(crate) index: usize,
    pub(crate) event: Event,
    /// When the socket's own time-out expires, on the kernel's clock.
    pub(crate) deadline: Option<Duration>,
    pub(crate) state: PollState,
}

/// The event that an engine waits for at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A source is readable, or a sink is writable.
    Ready,
    /// The endpoint is broken. If a wait is for such endpoints alone, it ends.
    Broken,
}

/// The result of a wait for one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollState {
    Pending,
    /// The flags that `poll(2)` returned. `POLLERR` and `POLLHUP` count as ready: the next call
    /// returns the error.
    Polled(PollFlags),
    TimedOut,
    /// The error of a socket, which no call returns any more.
    Failed(Errno),
}

impl Wait {
    /// Returns the wait until each of the awaited endpoints has been ready once, before a call that
    /// may not sleep.
    pub(crate) fn before_call() -> Self {
        Self::Readiness(Readiness {
            until: Until::EachReady,
            delay: None,
            recheck: None,
            is_certain: false,
        })
    }

    /// Returns the wait until each of the awaited endpoints has been ready once, after a call that
    /// found one of them not ready, and after `delay`.
    pub(crate) fn after_blocked(delay: Option<Duration>) -> Self {
        Self::Readiness(Readiness {
            until: Until::EachReady,
            delay,
            recheck: None,
            is_certain: true,
        })
    }
}

impl<'fd> Awaited<'fd> {
    /// Returns the wait for a source to become readable, or for a sink to become writable.
    pub(crate) fn ready(fd: BorrowedFd<'fd>, side: Side, deadline: Option<Duration>) -> Self {
        Self {
            fd,
            side,
            index: 0,
            event: Event::Ready,
            deadline,
            state: PollState::Pending,
        }
    }

    /// Sets the index of the sink.
    pub(crate) fn for_sink(self, index: usize) -> Self {
        Self { index, ..self }
    }

    /// Returns the wait for a sink to break because its reader closes.
    pub(crate) fn broken(fd: BorrowedFd<'fd>) -> Self {
        Self {
            event: Event::Broken,
            ..Self::ready(fd, Side::Sink, None)
        }
    }

    /// Returns why the wait has failed, if it has.
    pub(crate) fn failure(&self) -> Option<CallError> {
        match self.state {
            PollState::Pending | PollState::Polled(_) => None,
            PollState::TimedOut => Some(call_failed(self.side, Errno::AGAIN)),
            PollState::Failed(errno) => Some(call_failed(self.side, errno)),
        }
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.state == PollState::Pending
    }

    /// Returns the events for `poll(2)`.
    pub(crate) fn events(&self) -> PollFlags {
        match (self.event, self.side) {
            (Event::Broken, _) => PollFlags::empty(),
            (Event::Ready, Side::Source) => PollFlags::IN,
            (Event::Ready, _) => PollFlags::OUT,
        }
    }
}

/// Returns the error of the call that a wait replaces: `EAGAIN` if a socket's own time-out has
/// expired.
pub(crate) fn call_failed(side: Side, errno: Errno) -> CallError {
    let call = match side {
        Side::Source => "read",
        Side::Sink | Side::Neither => "write",
    };
    CallError::new(call, side, errno)
}
