//! Where the blocking driver sleeps: for a side that is not ready, and for the pace.

use std::ops::ControlFlow;
use std::time::Duration;

use super::{Engine, FALSE_STARTS};
use crate::error::Failure;
use crate::fault::{Cause, Fault, Side};
use crate::strategy::Strategy;
use crate::sys::{Errno, Kernel, Patience, PollFd, PollFlags};

/// What a strategy that blocks on ready descriptors is given between two tries, once nothing else
/// is left to try.
const LULL: Duration = Duration::from_millis(1);

impl<K: Kernel> Engine<'_, K> {
    /// How many bytes the pace allows now, after waiting until it allows some. Bytes in flight have
    /// been allowed already.
    pub(super) fn allowance(&mut self, left: u64) -> ControlFlow<(), u64> {
        if self.route.in_flight() > 0 {
            return ControlFlow::Continue(left);
        }
        let progress = self.progress(Some(Side::Neither));
        self.clock.allowance(&self.kernel, left, &progress)
    }

    /// With a tick, waits until neither side can make the coming step sleep.
    ///
    /// Without one, descriptors in blocking mode are left to block in the call itself, which saves
    /// this call.
    pub(super) fn wait_before_step(&mut self) -> Result<ControlFlow<()>, Failure> {
        if self.patience() == Patience::Block {
            return Ok(ControlFlow::Continue(()));
        }
        let strategy = self.current();
        if self.is_at_known_end(strategy) {
            return Ok(ControlFlow::Continue(()));
        }
        let (source, sink) = (&self.route.source.endpoint, &self.route.sink.endpoint);
        let is_empty = self.route.in_flight() == 0;
        let fills_first = matches!(strategy, Strategy::Buffered | Strategy::SplicePipe);
        let needs_source = is_empty && source.can_starve();
        let needs_sink = sink.can_block() && !(is_empty && fills_first);
        self.wait_for(needs_source, needs_sink)
    }

    /// Waits for the side that a step found not ready.
    pub(super) fn wait_after(&mut self, side: Side) -> Result<ControlFlow<()>, Failure> {
        if let Some(timed_out) = self.timed_out_in_call(side) {
            return Err(timed_out.into());
        }
        self.false_starts += 1;
        if self.false_starts > FALSE_STARTS {
            let strategy = self.current();
            let can_change =
                strategy != Strategy::Buffered && crate::plan::forced(&self.options).is_none();
            if can_change {
                self.fall_back(strategy, Cause::Errno(Errno::AGAIN))?;
                return Ok(ControlFlow::Continue(()));
            }
            let progress = self.progress(Some(Side::Neither));
            if self.clock.pause(&self.kernel, LULL, &progress).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        match side {
            Side::Source => self.wait_for(true, false),
            Side::Sink => self.wait_for(false, true),
            Side::Neither => self.wait_for(true, true),
        }
    }

    /// Waits until each of the wanted sides has been ready once, and observes at every tick
    /// meanwhile.
    fn wait_for(&mut self, mut source: bool, mut sink: bool) -> Result<ControlFlow<()>, Failure> {
        let since = self.clock.start_of_wait(&self.kernel);
        while source || sink {
            let timeout = [
                self.clock.until_tick(&self.kernel),
                self.until_timed_out(since, Side::Source, source),
                self.until_timed_out(since, Side::Sink, sink),
            ];
            let timeout = timeout.into_iter().flatten().min();
            let from = PollFd::from_borrowed_fd(self.route.source.fd, PollFlags::IN);
            let to = PollFd::from_borrowed_fd(self.route.sink.fd, PollFlags::OUT);
            let mut fds = [from, to];
            let wanted = match (source, sink) {
                (true, true) => &mut fds[..],
                (true, false) => &mut fds[..1],
                _ => &mut fds[1..],
            };
            match self.kernel.poll(wanted, timeout) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(Fault::new("poll", Side::Neither, errno).into()),
            }
            // Errors and hang-ups count as ready: the call will say which it is.
            source &= fds[0].revents().is_empty();
            sink &= fds[1].revents().is_empty();
            if !(source || sink) {
                break;
            }
            let side = match (source, sink) {
                (true, false) => Side::Source,
                (false, true) => Side::Sink,
                _ => Side::Neither,
            };
            let progress = self.progress(Some(side));
            if self
                .clock
                .observe_if_due(&self.kernel, &progress)
                .is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            for (waits, side) in [(source, Side::Source), (sink, Side::Sink)] {
                if self.until_timed_out(since, side, waits) == Some(Duration::ZERO) {
                    return Err(timed_out(side).into());
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// `EAGAIN` from a socket that blocks is its own `SO_RCVTIMEO` or `SO_SNDTIMEO`: an answer, not
    /// a reason to try again.
    fn timed_out_in_call(&mut self, side: Side) -> Option<Fault> {
        if self.patience() == Patience::NoWait {
            return None;
        }
        let mut is_patient_socket = |side| self.is_socket(side) && self.blocks(side);
        let culprit = match side {
            Side::Neither if is_patient_socket(Side::Source) => Side::Source,
            Side::Neither => Side::Sink,
            side => side,
        };
        if !is_patient_socket(culprit) {
            return None;
        }
        // Of a direct splice the other end is a pipe, and if that does not block, it may be the one
        // that is not ready.
        let other = if culprit == Side::Source {
            Side::Sink
        } else {
            Side::Source
        };
        (side != Side::Neither || self.blocks(other)).then(|| timed_out(culprit))
    }

    /// What is left of a socket's own time-out in a wait that began at `since`. A poll knows nothing of
    /// it, and takes the place of the call that would have.
    fn until_timed_out(&mut self, since: Duration, side: Side, waits: bool) -> Option<Duration> {
        if !(waits && self.clock.ticks() && self.is_socket(side)) {
            return None;
        }
        let timeout = match *self.time_outs.of(side) {
            Some(known) => known,
            None => self.ask_for_time_out(side),
        };
        let waited = self.kernel.now().saturating_sub(since);
        Some(timeout.saturating_sub(waited))
    }

    fn ask_for_time_out(&mut self, side: Side) -> Duration {
        let (fd, is_source) = match side {
            Side::Source => (self.route.source.fd, true),
            _ => (self.route.sink.fd, false),
        };
        let timeout = self.kernel.socket_timeout(fd, is_source).ok().flatten();
        let timeout = timeout.filter(|_| self.blocks(side));
        *self
            .time_outs
            .of(side)
            .insert(timeout.unwrap_or(Duration::MAX))
    }

    fn blocks(&mut self, side: Side) -> bool {
        let end = match side {
            Side::Source => &mut self.route.source,
            _ => &mut self.route.sink,
        };
        end.blocks(&self.kernel)
    }

    fn is_socket(&self, side: Side) -> bool {
        let end = match side {
            Side::Source => &self.route.source,
            _ => &self.route.sink,
        };
        end.endpoint.is_socket()
    }
}

/// How long the caller lets a blocking socket wait, for ever being [`Duration::MAX`]. The kernel is
/// asked once, when it first matters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimeOuts {
    source: Option<Duration>,
    sink: Option<Duration>,
}

impl TimeOuts {
    fn of(&mut self, side: Side) -> &mut Option<Duration> {
        match side {
            Side::Source => &mut self.source,
            _ => &mut self.sink,
        }
    }
}

fn timed_out(side: Side) -> Fault {
    let call = if side == Side::Source {
        "read"
    } else {
        "write"
    };
    Fault::new(call, side, Errno::AGAIN)
}
