//! What a fan-out waits for: its source, and sinks that are not ready.

use std::time::Duration;

use super::FanOutEngine;
use super::backlog::Storage;
use super::sink_state::SinkState;
use crate::call_error::CallError;
use crate::engine::Flow;
use crate::error::RunError;
use crate::fd_info::Kind;
use crate::pipe;
use crate::report::Ended;
use crate::side::Side;
use crate::sys::{Blocking, Errno, Kernel, PollFd, PollFlags};
use crate::wait::{Awaited, Event, PollState, Readiness, Until, Wait};

/// How often to look for a closed reader while it cannot be polled continuously.
pub(super) const RECHECK_INTERVAL: Duration = Duration::from_millis(100);

/// What a fan-out waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AwaitedEnds {
    /// The source, before a round.
    Source,
    /// The sinks that blocked, or, if none did, the source.
    Blocked,
}

impl<K: Kernel> FanOutEngine<'_, K> {
    /// Returns the wait until the source has bytes or has ended, if calls may not sleep and the
    /// source can be empty.
    pub(super) fn wait_for_source(&mut self) -> Option<Flow> {
        let can_starve = self.backlog.state.source.info.can_starve();
        let would_sleep = can_starve && self.context.blocking() == Blocking::Nonblocking;
        if !would_sleep {
            return None;
        }
        let (kernel, source) = (&self.context.kernel, &self.backlog.state.source);
        if self.may_lack_writer && !source.is_readable(kernel) {
            if self.backlog.storage == Storage::Buffer {
                // A read finds out. It does not sleep, because such a pipe is in non-blocking mode.
                self.may_lack_writer = false;
                return None;
            }
            match pipe::peek(kernel, source.fd) {
                Ok(0) => return Some(Flow::Ended(Ended::Eof)),
                Ok(_) | Err(Errno::AGAIN) => {}
                // This kernel has no `tee`. The next step does not sleep either, and waits if there
                // is a writer but no bytes.
                Err(_) => return None,
            }
        }
        self.may_lack_writer = false;
        self.context.awaited.clear();
        let source = &mut self.backlog.state.source;
        self.context.await_ready(Side::Source, source);
        if self.context.awaited.is_empty() {
            // The source never becomes ready, and a read returns the reason.
            return None;
        }
        Some(Flow::Wait(self.wait(AwaitedEnds::Source, None)))
    }

    /// Returns the wait for the endpoints that blocked a step.
    pub(super) fn wait_for_blocked(&mut self) -> Wait {
        let delay = self.context.count_blocked();
        let since = match self.context.blocking() {
            Blocking::Nonblocking => self.context.kernel.now(),
            Blocking::MaySleep => Duration::ZERO,
        };
        for sink in self.sinks.iter_mut().filter(|sink| sink.blocked) {
            sink.blocked_since.get_or_insert(since);
        }
        self.context.awaited.clear();
        // While a sink blocks, the round cannot end, and nothing is taken from the source.
        if !self.await_blocked_sinks() {
            let source = &mut self.backlog.state.source;
            let deadline = self.context.deadline(Side::Source, source, Some(since));
            let awaited = Awaited::ready(source.fd, Side::Source, deadline);
            self.context.awaited.push(awaited);
        }
        self.wait(AwaitedEnds::Blocked, delay)
    }

    /// Adds the sinks that blocked to the awaited endpoints. Returns false if there are none.
    fn await_blocked_sinks(&mut self) -> bool {
        let sinks = self.sinks.iter_mut().enumerate();
        for (index, sink_state) in sinks.filter(|(_, sink)| sink.is_live() && sink.blocked) {
            let (sink, since) = (&mut sink_state.state.sink, sink_state.blocked_since);
            let deadline = self.context.deadline(Side::Sink, sink, since);
            let awaited = Awaited::ready(sink.fd, Side::Sink, deadline).for_sink(index);
            self.context.awaited.push(awaited);
        }
        !self.context.awaited.is_empty()
    }

    /// Returns the wait for the awaited endpoints, and for readers that close.
    fn wait(&mut self, ends: AwaitedEnds, delay: Option<Duration>) -> Wait {
        self.watch_readers();
        // A socket with completions would end every poll at once, so it is checked at intervals.
        let mut sinks = self.sinks.iter();
        let rechecks = sinks.any(|sink| is_watched(sink) && sink.has_completions);
        self.awaited_ends = Some(ends);
        Wait::Readiness(Readiness {
            until: Until::OneReady,
            delay,
            recheck: rechecks.then_some(RECHECK_INTERVAL),
            is_certain: ends == AwaitedEnds::Blocked,
        })
    }

    /// Adds the sinks whose readers may close, if the caller watches readers.
    fn watch_readers(&mut self) {
        let sinks = self.sinks.iter().enumerate();
        let watched = sinks.filter(|(_, sink)| is_watched(sink) && !sink.has_completions);
        let watched =
            watched.map(|(index, sink)| Awaited::broken(sink.state.sink.fd).for_sink(index));
        self.context.awaited.extend(watched);
    }

    /// Ends the sinks whose readers have closed or whose own time-outs have expired. Returns a wait
    /// for the rest if nothing is ready yet.
    pub(super) fn finish_wait(&mut self, ends: AwaitedEnds) -> Result<Option<Wait>, RunError> {
        self.check_readers()?;
        let mut is_ready = false;
        for entry in 0..self.context.awaited.len() {
            let awaited = self.context.awaited[entry];
            match awaited.failure() {
                Some(error) if awaited.side == Side::Source => return Err(error.into()),
                Some(error) => self.sink_failed(awaited.index, error)?,
                None => is_ready |= awaited.event == Event::Ready && !awaited.is_pending(),
            }
        }
        if !is_ready && self.has_live_sink() && self.retain_pending() {
            return Ok(Some(self.wait(ends, None)));
        }
        if ends == AwaitedEnds::Blocked {
            // If the slowest sink has failed, the others may have everything now.
            self.process_accepted()?;
        }
        Ok(None)
    }

    /// Keeps the endpoints that are still pending. Returns false if there are none.
    fn retain_pending(&mut self) -> bool {
        let sinks = &self.sinks;
        self.context.awaited.retain(|awaited| {
            let is_live = awaited.side == Side::Source || sinks[awaited.index].is_live();
            awaited.event == Event::Ready && awaited.is_pending() && is_live
        });
        !self.context.awaited.is_empty()
    }

    /// Ends the sinks whose readers have closed.
    fn check_readers(&mut self) -> Result<(), RunError> {
        if !self.context.options.watch_readers {
            return Ok(());
        }
        for entry in 0..self.context.awaited.len() {
            let awaited = self.context.awaited[entry];
            if let (Event::Broken, PollState::Polled(found)) = (awaited.event, awaited.state) {
                self.check_reader(awaited.index, found)?;
            }
        }
        for index in 0..self.sinks.len() {
            if self.sinks[index].has_completions {
                self.poll_reader(index)?;
            }
        }
        Ok(())
    }

    /// Ends the sinks whose readers have closed by now. For a fan-out that waits for its rate, and
    /// so for none of its ends.
    pub(super) fn poll_readers(&mut self) -> Result<(), RunError> {
        (0..self.sinks.len()).try_for_each(|index| self.poll_reader(index))
    }

    /// Ends a sink if it is watched and its reader has closed by now.
    fn poll_reader(&mut self, index: usize) -> Result<(), RunError> {
        let sink = &self.sinks[index];
        if !is_watched(sink) {
            return Ok(());
        }
        let mut fds = [PollFd::from_borrowed_fd(
            sink.state.sink.fd,
            PollFlags::empty(),
        )];
        // An error here means that the sink is checked again later.
        let _ = self.context.kernel.poll(&mut fds, Some(Duration::ZERO));
        self.check_reader(index, fds[0].revents())
    }

    /// Ends a sink if its reader has closed.
    ///
    /// `POLLERR` alone does not prove that for a socket: completions of `MSG_ZEROCOPY` may wait in
    /// the error queue, which the caller reads. `SO_ERROR` tells them apart. It also names the
    /// reason if the connection was reset.
    fn check_reader(&mut self, index: usize, found: PollFlags) -> Result<(), RunError> {
        let sink_state = &mut self.sinks[index];
        let sink = &sink_state.state.sink;
        let may_be_completions = sink.info.kind == Kind::Stream
            && found.contains(PollFlags::ERR)
            && !found.contains(PollFlags::HUP);
        if !found.intersects(PollFlags::ERR | PollFlags::HUP) {
            sink_state.has_completions = false;
            return Ok(());
        }
        let reset = match sink.info.kind {
            Kind::Stream => self.context.kernel.socket_error(sink.fd).ok().flatten(),
            _ => None,
        };
        sink_state.has_completions = may_be_completions && reset.is_none();
        if !sink_state.has_completions {
            // The error that a write would have returned. Reading it has cleared it.
            let errno = reset.unwrap_or(Errno::PIPE);
            self.sink_failed(index, CallError::new("poll", Side::Sink, errno))?;
        }
        Ok(())
    }
}

fn is_watched(sink: &SinkState<'_>) -> bool {
    sink.is_live() && sink.is_watched
}
