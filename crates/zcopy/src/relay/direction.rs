//! One direction of a relay.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::call_error::CallError;
use crate::error::Error;
use crate::progress::Progress;
use crate::report::{Ended, Report};
#[cfg(feature = "tokio")]
use crate::session::Belief;
use crate::session::{Interest, Progressed, Steps};
use crate::side::Side;
use crate::sys::{self, Errno, Kernel};

/// One direction of a relay.
pub(super) struct Direction<'a, K: Kernel> {
    state: State<'a, K>,
    sink: BorrowedFd<'a>,
    /// The events and the time that the last step waits for.
    interest: Option<Interest>,
    /// Whether the next step is skipped: a poll has just found that neither end is ready, or a
    /// reactor believes that and tells when that changes.
    is_known_blocked: bool,
    /// When the direction gives back its pipe and buffer, on the kernel's clock, if no byte moves
    /// until then.
    rests_at: Option<Duration>,
    is_resting: bool,
}

/// How long a direction moves nothing until it gives back its pipe and buffer.
const REST_AFTER: Duration = Duration::from_secs(1);

enum State<'a, K: Kernel> {
    Open(Steps<'a, K>),
    Ended(Box<(Progress, Report)>),
}

impl<K: Kernel> State<'_, K> {
    /// Ends the direction, which keeps its last progress and its report.
    fn end_with(&mut self, report: Report) {
        let progress = Progress {
            bytes: report.bytes,
            ..self.progress()
        };
        *self = State::Ended(Box::new((progress, report)));
    }

    fn progress(&self) -> Progress {
        match self {
            State::Open(steps) => steps.progress(),
            State::Ended(ended) => ended.0,
        }
    }
}

impl<'a, K: Kernel> Direction<'a, K> {
    pub(super) fn new(steps: Steps<'a, K>, sink: BorrowedFd<'a>) -> Self {
        Self {
            state: State::Open(steps),
            sink,
            interest: None,
            is_known_blocked: false,
            rests_at: None,
            is_resting: false,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    pub(super) fn progress(&self) -> Progress {
        self.state.progress()
    }

    /// Returns what the direction waits for: nothing if it has ended, or has not been blocked.
    pub(super) fn interest(&self) -> Interest {
        self.interest.unwrap_or_default()
    }

    /// Takes one step. At the end of the source it shuts down the sink. Returns the number of bytes
    /// that moved.
    pub(super) fn step(&mut self, max: u64) -> Result<u64, Error> {
        let State::Open(steps) = &mut self.state else {
            return Ok(0);
        };
        if std::mem::take(&mut self.is_known_blocked) {
            return Ok(0);
        }
        self.interest = None;
        match steps.step(max) {
            Ok(Progressed::Moved(n)) => return Ok(n),
            Ok(Progressed::Blocked(interest)) => self.interest = Some(interest),
            Ok(Progressed::Ended(ended)) => {
                let (report, failed) = self.finish(ended);
                if let Some(error) = failed {
                    return Err(error);
                }
                if ended == Ended::Eof {
                    self.shut_down_sink(report)?;
                }
            }
            Err(error) => {
                self.state.end_with(error.report().clone());
                return Err(error);
            }
        }
        Ok(0)
    }

    /// Ends the direction by this failure, if it has not ended.
    pub(super) fn fail(&mut self, failure: CallError) -> Option<Error> {
        let State::Open(steps) = &mut self.state else {
            return None;
        };
        let error = steps.fail(failure.into());
        self.interest = None;
        self.state.end_with(error.report().clone());
        Some(error)
    }

    /// Passes the end of the stream on to the peer of the sink.
    fn shut_down_sink(&self, report: Report) -> Result<(), Error> {
        match sys::shut_down_writes(self.sink) {
            // An end that is no socket, or is no longer connected, cannot pass it on.
            Ok(()) | Err(Errno::NOTSOCK | Errno::NOTCONN) => Ok(()),
            Err(errno) => {
                let error = CallError::new("shutdown", Side::Sink, errno);
                Err(Error::new(error.into(), report))
            }
        }
    }

    /// Notes the result of a poll for the interest of the last step.
    pub(super) fn note_polled(&mut self, source_is_ready: bool, sink_is_ready: bool) {
        if let (State::Open(steps), Some(interest)) = (&mut self.state, self.interest) {
            steps.note_ready(source_is_ready, sink_is_ready);
            let is_ready = source_is_ready || sink_is_ready;
            self.is_known_blocked = !is_ready && interest.timeout().is_none();
        }
    }

    /// Notes what a reactor believes before the next step. A direction that waits for an end that
    /// is believed not ready, and for no time, takes no step.
    #[cfg(feature = "tokio")]
    pub(super) fn note_beliefs(&mut self, source: Belief, sink: Belief) {
        let (State::Open(steps), Some(interest)) = (&mut self.state, self.interest) else {
            return;
        };
        steps.note_beliefs(source, sink);
        let waits = interest.source() || interest.sink();
        let is_blocked = |waits: bool, belief| !waits || belief == Belief::NotReady;
        self.is_known_blocked = waits
            && interest.timeout().is_none()
            && is_blocked(interest.source(), source)
            && is_blocked(interest.sink(), sink);
    }

    /// Returns whether the direction waits for the rate, and for neither end.
    pub(super) fn waits_for_rate(&self) -> bool {
        matches!(&self.state, State::Open(steps) if steps.waits_for_rate())
    }

    /// Gives back pipe and buffer if no byte has moved for a second and none is in flight. A step
    /// has just moved `n` bytes.
    pub(super) fn rest(&mut self, n: u64, now: Duration) {
        if n > 0 {
            self.rests_at = None;
            self.is_resting = false;
        } else if let State::Open(steps) = &mut self.state
            && !self.is_resting
            && now >= *self.rests_at.get_or_insert(now + REST_AFTER)
        {
            steps.rest();
            self.is_resting = true;
        }
    }

    /// Returns when to call [`rest`](Self::rest) next.
    pub(super) fn rests_at(&self) -> Option<Duration> {
        self.rests_at.filter(|_| self.is_open() && !self.is_resting)
    }

    /// Ends the direction, for the reason of the relay if its time is over. Returns its report, and
    /// its failure, if it had not ended before.
    pub(super) fn finish(&mut self, relay_ended: Ended) -> (Report, Option<Error>) {
        self.interest = None;
        let (mut report, error) = match &mut self.state {
            State::Ended(ended) => return (ended.1.clone(), None),
            State::Open(steps) => match steps.finish() {
                Ok(report) => (report, None),
                Err(error) => (error.report().clone(), Some(error)),
            },
        };
        if report.ended == Ended::Stopped && relay_ended == Ended::TimedOut {
            report.ended = relay_ended;
        }
        self.state.end_with(report.clone());
        (report, error)
    }
}
