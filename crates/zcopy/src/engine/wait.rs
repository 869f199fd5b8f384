//! Where the blocking driver sleeps: for a side that is not ready, and for the pace.

use std::ops::ControlFlow;
use std::time::Duration;

use super::{Engine, FALSE_STARTS, Phase};
use crate::clock::Clock;
use crate::end::End;
use crate::endpoint::{Endpoint, Kind};
use crate::error::Failure;
use crate::fault::{Cause, Fault, Side};
use crate::progress::Progress;
use crate::strategy::Strategy;
use crate::sys::{Errno, Kernel, Patience, PollFd, PollFlags};

/// What a strategy that blocks on ready descriptors is given between two tries, once nothing else
/// is left to try.
pub(crate) const LULL: Duration = Duration::from_millis(1);

impl<K: Kernel> Engine<'_, K> {
    /// How many bytes the pace allows now, after waiting until it allows some. Bytes in flight have
    /// been allowed already, and wait for the pace of their records.
    pub(super) fn allowance(&mut self, left: u64) -> ControlFlow<(), u64> {
        if !self.route.wants_more() {
            self.wait_for_records(left)?;
            return ControlFlow::Continue(left);
        }
        let progress = self.progress(Some(Side::Neither));
        self.clock.allowance(&self.kernel, left, &progress)
    }

    /// Waits until the pace of the records allows one of those in the buffer.
    fn wait_for_records(&mut self, left: u64) -> ControlFlow<()> {
        loop {
            let waiting = self.route.buffer.pending();
            let waiting = &waiting[..left.min(waiting.len() as u64) as usize];
            let Some(pause) = self.route.records.pause(&self.kernel, waiting) else {
                return ControlFlow::Continue(());
            };
            let progress = self.progress(Some(Side::Neither));
            self.clock.pause(&self.kernel, pause, &progress)?;
        }
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
        let is_empty = self.route.wants_more();
        let fills_first = matches!(strategy, Strategy::Buffered | Strategy::SplicePipe);
        // A splice can be told not to wait for a pipe, and a private one tells whose answer it is.
        let is_told = |end: &Endpoint| strategy == Strategy::SplicePipe && end.kind == Kind::Pipe;
        // A FIFO that nobody has opened for writing polls as if its writer were to be waited for. In non-blocking mode a
        // read says at once that it has ended, and never sleeps.
        let may_lack_writer =
            source.kind == Kind::Pipe && source.nonblocking && !self.source_has_answered;
        let needs_source = is_empty && source.can_starve() && !is_told(source) && !may_lack_writer;
        let needs_sink = sink.can_block() && !(is_empty && fills_first) && !is_told(sink);
        self.wait_for(needs_source, needs_sink)
    }

    /// Waits for the side that a step found not ready.
    pub(super) fn wait_after(&mut self, side: Side) -> Result<ControlFlow<()>, Failure> {
        if let Some(timed_out) = self.timed_out_in_call(side) {
            return Err(timed_out.into());
        }
        self.false_starts += 1;
        if self.false_starts > 1 && side != Side::Sink && self.may_be_at_mark() {
            self.phase = Phase::Confirming;
            return Ok(ControlFlow::Continue(()));
        }
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
    fn wait_for(&mut self, source: bool, sink: bool) -> Result<ControlFlow<()>, Failure> {
        let progress = self.progress(None);
        let mut ends = [
            (Side::Source, &mut self.route.source),
            (Side::Sink, &mut self.route.sink),
        ];
        let wanted = match (source, sink) {
            (true, true) => &mut ends[..],
            (true, false) => &mut ends[..1],
            (false, true) => &mut ends[1..],
            (false, false) => return Ok(ControlFlow::Continue(())),
        };
        wait_for(&self.kernel, &mut self.clock, wanted, progress)
    }

    /// The time-out of a socket that a call came to, which is an answer, not a reason to try again.
    fn timed_out_in_call(&mut self, side: Side) -> Option<Fault> {
        let patience = self.patience();
        let mut has_timed_out = |side| {
            let end = match side {
                Side::Source => &mut self.route.source,
                _ => &mut self.route.sink,
            };
            end.has_timed_out(&self.kernel, side, patience)
        };
        let culprit = match side {
            Side::Neither if has_timed_out(Side::Source) => Side::Source,
            Side::Neither => Side::Sink,
            side => side,
        };
        if !has_timed_out(culprit) {
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

    fn blocks(&mut self, side: Side) -> bool {
        let end = match side {
            Side::Source => &mut self.route.source,
            _ => &mut self.route.sink,
        };
        end.blocks(&self.kernel)
    }
}

/// Waits until each of the ends, at most two, has been ready once. The observer is shown `progress` at
/// every tick meanwhile, and the side that is waited for.
pub(crate) fn wait_for<K: Kernel>(
    kernel: &K,
    clock: &mut Clock<'_>,
    ends: &mut [(Side, &mut End<'_>)],
    progress: Progress,
) -> Result<ControlFlow<()>, Failure> {
    let since = clock.start_of_wait(kernel);
    // Those that are not ready yet stand in front.
    let mut n = ends.len();
    for index in (0..n).rev() {
        let (side, end) = &mut ends[index];
        // The call will say why it moves nothing, which no wait would.
        if clock.ticks() && end.is_never_ready(kernel, *side) {
            n -= 1;
            ends.swap(index, n);
        }
    }
    while n > 0 {
        let waiting = &mut ends[..n];
        let mut timeout = clock.until_tick(kernel);
        if clock.ticks() {
            let waited = kernel.now().saturating_sub(since);
            let left = waiting
                .iter_mut()
                .filter_map(|(side, end)| end.until_timed_out(kernel, *side, waited));
            timeout = timeout.into_iter().chain(left).min();
        }
        let mut fds = [polled(&waiting[0]), polled(&waiting[n - 1])];
        match kernel.poll(&mut fds[..n], timeout) {
            Ok(_) => {}
            Err(Errno::INTR) => clock.interrupt(),
            Err(errno) => return Err(Fault::new("poll", Side::Neither, errno).into()),
        }
        for (index, fd) in fds[..n].iter().enumerate().rev() {
            // Errors and hang-ups count as ready: the call will say which it is.
            if !fd.revents().is_empty() {
                n -= 1;
                ends.swap(index, n);
            }
        }
        let blocked = match &ends[..n] {
            [] => break,
            [(side, _)] => *side,
            _ => Side::Neither,
        };
        let progress = Progress {
            blocked: Some(blocked),
            ..progress
        };
        if clock.observe_if_due(kernel, &progress).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if !clock.ticks() {
            continue;
        }
        let waited = kernel.now().saturating_sub(since);
        for (side, end) in &mut ends[..n] {
            if end.until_timed_out(kernel, *side, waited) == Some(Duration::ZERO) {
                return Err(timed_out(*side).into());
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn polled<'fd>((side, end): &(Side, &mut End<'fd>)) -> PollFd<'fd> {
    let readiness = match side {
        Side::Source => PollFlags::IN,
        _ => PollFlags::OUT,
    };
    PollFd::from_borrowed_fd(end.fd, readiness)
}

/// What a socket's own time-out comes to.
pub(crate) fn timed_out(side: Side) -> Fault {
    let call = if side == Side::Source {
        "read"
    } else {
        "write"
    };
    Fault::new(call, side, Errno::AGAIN)
}
