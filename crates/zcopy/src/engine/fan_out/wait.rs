//! What a fan-out waits for: its source, and sinks that are not ready.

use std::time::Duration;

use super::FanOutEngine;
use super::backlog::Storage;
use super::sink_state::SinkState;
use crate::call_error::CallError;
use crate::context::timed_out;
use crate::engine::Flow;
use crate::error::RunError;
use crate::fd_info::Kind;
use crate::pipe;
use crate::report::Ended;
use crate::side::Side;
use crate::sys::{Blocking, Errno, Kernel, PollFd, PollFlags};
use crate::wait::{Awaited, Interest, Readiness, State, Until, Wait};

/// How long the reader of a socket may have gone before that is seen, where poll cannot be left to tell.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What a fan-out waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// The source, before a round.
    Source,
    /// What a step found not ready: the sinks that are blocked, or without one the source.
    Blocked,
}

impl<K: Kernel> FanOutEngine<'_, K> {
    /// Waits until the source has bytes or has ended, where the next call would do so unwatched, or
    /// would speak of a sink though there is nothing to give it.
    pub(super) fn wait_for_source(&mut self) -> Option<Flow> {
        let can_starve = self.backlog.state.source.info.can_starve();
        let would_sleep = can_starve && self.context.blocking() == Blocking::Nonblocking;
        if !would_sleep {
            return None;
        }
        let (kernel, source) = (&self.context.kernel, &self.backlog.state.source);
        if self.may_lack_writer && !source.is_readable(kernel) {
            if self.backlog.storage == Storage::Buffer {
                // A read tells. It does not wait, since such a pipe is in non-blocking mode.
                self.may_lack_writer = false;
                return None;
            }
            match pipe::peek(kernel, source.fd) {
                Ok(0) => return Some(Flow::Ended(Ended::Eof)),
                Ok(_) | Err(Errno::AGAIN) => {}
                // A kernel without tee cannot tell. The next step can: it does not wait, and if it finds
                // that there is a writer, but no bytes, it waits then.
                Err(_) => return None,
            }
        }
        self.may_lack_writer = false;
        self.context.awaited.clear();
        let source = &mut self.backlog.state.source;
        self.context.await_ready(Side::Source, source);
        if self.context.awaited.is_empty() {
            // A read will say why nothing comes, which no wait would.
            return None;
        }
        Some(Flow::Wait(self.wait(Waiting::Source, None)))
    }

    /// Waits for whatever a step found not ready.
    pub(super) fn wait_for_blocked(&mut self) -> Wait {
        let delay = self.context.count_spurious_wakeup();
        let since = match self.context.blocking() {
            Blocking::Nonblocking => self.context.kernel.now(),
            Blocking::MaySleep => Duration::ZERO,
        };
        for sink in self.sinks.iter_mut().filter(|b| b.blocked) {
            sink.blocked_since.get_or_insert(since);
        }
        self.context.awaited.clear();
        // Though every sink has everything that was taken, one that is full may keep more from coming.
        if !self.await_blocked_sinks() {
            let source = &mut self.backlog.state.source;
            let deadline = self.context.deadline(Side::Source, source, Some(since));
            let awaited = Awaited::ready(source.fd, Side::Source, deadline);
            self.context.awaited.push(awaited);
        }
        self.wait(Waiting::Blocked, delay)
    }

    /// Adds the sinks that are not ready to those that are waited for. False if there is none.
    fn await_blocked_sinks(&mut self) -> bool {
        let sinks = self.sinks.iter_mut().enumerate();
        for (index, sink_state) in sinks.filter(|(_, b)| b.is_live() && b.blocked) {
            let (sink, since) = (&mut sink_state.state.sink, sink_state.blocked_since);
            let deadline = self.context.deadline(Side::Sink, sink, since);
            let awaited = Awaited::ready(sink.fd, Side::Sink, deadline).at(index);
            self.context.awaited.push(awaited);
        }
        !self.context.awaited.is_empty()
    }

    /// Waits for the endpoints that have been added, and for readers that go away.
    fn wait(&mut self, waiting: Waiting, delay: Option<Duration>) -> Wait {
        self.watch_readers();
        // A socket with completions would end every poll at once, so that it is looked at now and then.
        let mut sinks = self.sinks.iter();
        let looks_again = sinks.any(|sink| is_watched(sink) && sink.has_completions);
        self.waiting = Some(waiting);
        Wait::Readiness(Readiness {
            until: Until::OneReady,
            delay,
            recheck: looks_again.then_some(LOOK_AGAIN),
        })
    }

    /// Adds the sinks whose readers may go away, if the caller wants to know at once.
    fn watch_readers(&mut self) {
        if !self.context.options.watch_readers {
            return;
        }
        let sinks = self.sinks.iter().enumerate();
        let watched = sinks.filter(|(_, b)| is_watched(b) && !b.has_completions);
        let watched = watched.map(|(index, b)| Awaited::broken(b.state.sink.fd).at(index));
        self.context.awaited.extend(watched);
    }

    /// Ends the sinks whose readers have gone and those whose own time-outs have expired. Answers what is still to be waited for.
    pub(super) fn see_what_ended(&mut self, waiting: Waiting) -> Result<Option<Wait>, RunError> {
        self.see_readers()?;
        let mut is_ready = false;
        for place in 0..self.context.awaited.len() {
            let awaited = self.context.awaited[place];
            match (awaited.interest, awaited.state) {
                (Interest::Ready, State::Polled(_)) => is_ready = true,
                (_, State::TimedOut) if awaited.side == Side::Source => {
                    return Err(timed_out(Side::Source).into());
                }
                (_, State::TimedOut) => {
                    self.sink_failed(awaited.index, timed_out(Side::Sink))?;
                }
                _ => {}
            }
        }
        let is_live = self.sinks.iter().any(SinkState::is_live);
        if !is_ready && is_live && self.await_again() {
            return Ok(Some(self.wait(waiting, None)));
        }
        if waiting == Waiting::Blocked {
            // A sink that has been ended may have been the last to lack something.
            self.moved()?;
        }
        Ok(None)
    }

    /// Keeps the endpoints that are still to be waited for. False if there is none.
    fn await_again(&mut self) -> bool {
        let sinks = &self.sinks;
        self.context.awaited.retain(|awaited| {
            let is_live = awaited.side == Side::Source || sinks[awaited.index].is_live();
            awaited.interest == Interest::Ready && awaited.is_pending() && is_live
        });
        !self.context.awaited.is_empty()
    }

    /// Ends the sinks whose readers have gone.
    fn see_readers(&mut self) -> Result<(), RunError> {
        if !self.context.options.watch_readers {
            return Ok(());
        }
        for place in 0..self.context.awaited.len() {
            let awaited = self.context.awaited[place];
            if let (Interest::Broken, State::Polled(found)) = (awaited.interest, awaited.state) {
                self.see_reader(awaited.index, found)?;
            }
        }
        for index in 0..self.sinks.len() {
            let sink = &self.sinks[index];
            if is_watched(sink) && sink.has_completions {
                let fd = sink.state.sink.fd;
                let mut asked = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
                // If the question fails, it is asked again.
                let _ = self.context.kernel.poll(&mut asked, Some(Duration::ZERO));
                self.see_reader(index, asked[0].revents())?;
            }
        }
        Ok(())
    }

    /// Ends a sink if its reader has gone.
    ///
    /// `POLLERR` alone is not believed of a socket: it may say that completions of `MSG_ZEROCOPY` wait in the error queue,
    /// which is the caller's to read. `SO_ERROR` tells.
    fn see_reader(&mut self, index: usize, found: PollFlags) -> Result<(), RunError> {
        let sink_state = &mut self.sinks[index];
        let sink = &sink_state.state.sink;
        let is_doubtful = sink.info.kind == Kind::Stream
            && found.contains(PollFlags::ERR)
            && !found.contains(PollFlags::HUP);
        sink_state.has_completions =
            is_doubtful && self.context.kernel.socket_error(sink.fd) == Ok(None);
        if found.intersects(PollFlags::ERR | PollFlags::HUP) && !sink_state.has_completions {
            self.sink_failed(index, CallError::new("poll", Side::Sink, Errno::PIPE))?;
        }
        Ok(())
    }
}

fn is_watched(sink: &SinkState<'_>) -> bool {
    let kind = sink.state.sink.info.kind;
    sink.is_live() && matches!(kind, Kind::Pipe | Kind::Stream)
}
