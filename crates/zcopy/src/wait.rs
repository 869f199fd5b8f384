//! What a loop waits for. The loop says it, a driver does it.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::side::Side;
use crate::sys::PollFlags;

/// What has to happen before the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// This much time passes. An observer that is called meanwhile may have changed the rate, so a driver
    /// may ask the loop again at every tick.
    Time(Duration),
    /// Endpoints become ready.
    Readiness(Readiness),
}

/// Which of the [awaited](Awaited) endpoints have to become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) until: Until,
    /// How long to sleep before endpoints are polled, if a poll would return at once and the step block again.
    pub(crate) delay: Option<Duration>,
    /// After how long to ask the loop again in any case.
    pub(crate) recheck: Option<Duration>,
}

/// How many endpoints end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Each of them has been ready once.
    EachReady,
    /// One of them is ready.
    OneReady,
}

/// An endpoint that a loop waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited<'fd> {
    pub(crate) fd: BorrowedFd<'fd>,
    pub(crate) side: Side,
    /// Which of several sinks it is.
    pub(crate) index: usize,
    pub(crate) interest: Interest,
    /// When the time-out of the socket itself expires, on the kernel's clock.
    pub(crate) deadline: Option<Duration>,
    pub(crate) state: State,
}

/// What a loop wants to know of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// When it can be read, or, as a sink, written.
    Ready,
    /// Whether it is broken. This alone does not keep a wait going.
    Broken,
}

/// What a wait has found out about an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Pending,
    /// It polled so. Errors and hang-ups count as ready: the next call says which it is.
    Polled(PollFlags),
    TimedOut,
}

impl Wait {
    /// Until each of the awaited endpoints has been ready once.
    pub(crate) fn until_each_ready(delay: Option<Duration>) -> Self {
        Self::Readiness(Readiness {
            until: Until::EachReady,
            delay,
            recheck: None,
        })
    }
}

impl<'fd> Awaited<'fd> {
    /// A source to be read from, or a sink to be written to.
    pub(crate) fn ready(fd: BorrowedFd<'fd>, side: Side, deadline: Option<Duration>) -> Self {
        Self {
            fd,
            side,
            index: 0,
            interest: Interest::Ready,
            deadline,
            state: State::Pending,
        }
    }

    /// The same, as one of several sinks.
    pub(crate) fn at(self, index: usize) -> Self {
        Self { index, ..self }
    }

    /// A sink whose reader may go away.
    pub(crate) fn broken(fd: BorrowedFd<'fd>) -> Self {
        Self {
            interest: Interest::Broken,
            ..Self::ready(fd, Side::Sink, None)
        }
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.state == State::Pending
    }

    /// What `poll(2)` is asked for.
    pub(crate) fn events(&self) -> PollFlags {
        match (self.interest, self.side) {
            (Interest::Broken, _) => PollFlags::empty(),
            (Interest::Ready, Side::Source) => PollFlags::IN,
            (Interest::Ready, _) => PollFlags::OUT,
        }
    }
}
