//! Where a fan-out sleeps: for its source, and for sinks that are not ready.

use std::ops::ControlFlow;
use std::time::Duration;

use super::Fanout;
use super::hub::Form;
use crate::endpoint::Kind;
use crate::error::Failure;
use crate::fault::{Fault, Side};
use crate::report::Ended;
use crate::sys::{Errno, Kernel, Patience, PollFd, PollFlags};

/// So many times in a row may something poll as ready and then block all the same before it is given
/// a pause. Somebody else at the same pipe can cause a few.
const FALSE_STARTS: u32 = 8;

/// The pause.
const LULL: Duration = Duration::from_millis(1);

impl<K: Kernel> Fanout<'_, K> {
    /// Waits until the source has bytes or has ended, where the next call would do so unwatched, or
    /// would speak of a sink though there is nothing to give it.
    pub(super) fn wait_for_source(&mut self) -> Result<Option<Ended>, Failure> {
        let is_hub = self.hub.form == Form::Source;
        let can_block = self.hub.route.source.endpoint.can_block();
        let would_sleep = can_block && self.patience() == Patience::NoWait;
        if !(is_hub || would_sleep) {
            return Ok(None);
        }
        let source = self.hub.route.source.fd;
        loop {
            self.polled.clear();
            let asked = PollFd::from_borrowed_fd(source, PollFlags::IN);
            self.polled.push(asked);
            self.watch_readers();
            self.poll()?;
            let found = self.polled[0].revents();
            self.see_readers(1)?;
            if !self.branches.iter().any(super::Branch::is_live) {
                return Ok(Some(Ended::NoSink));
            }
            // Of a pipe, a hang-up without bytes is its end; of anything else the call will say.
            if is_hub && !found.is_empty() && !found.contains(PollFlags::IN) {
                return Ok(Some(Ended::Eof));
            }
            if !found.is_empty() {
                return Ok(None);
            }
            let progress = self.progress(Some(Side::Source));
            let watched = self.clock.observe_if_due(&self.kernel, &progress);
            if watched.is_break() {
                return Ok(Some(Ended::Stopped));
            }
        }
    }

    /// Waits for whatever a step found not ready.
    pub(super) fn wait_after(&mut self) -> Result<ControlFlow<()>, Failure> {
        self.false_starts += 1;
        if self.false_starts > FALSE_STARTS {
            let progress = self.progress(Some(Side::Neither));
            if self.clock.pause(&self.kernel, LULL, &progress).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        // A full sink that is tee'd into has been given nothing: all may be even, and yet it is not
        // the source that is waited for.
        let waits_for_source = !self.branches.iter().any(|b| b.is_live() && b.blocked);
        loop {
            self.polled.clear();
            if waits_for_source {
                let source = self.hub.route.source.fd;
                self.polled
                    .push(PollFd::from_borrowed_fd(source, PollFlags::IN));
            } else {
                let blocked = self.branches.iter().filter(|b| b.is_live() && b.blocked);
                let asked =
                    blocked.map(|b| PollFd::from_borrowed_fd(b.route.sink.fd, PollFlags::OUT));
                self.polled.extend(asked);
            }
            let n_wanted = self.polled.len();
            self.watch_readers();
            self.poll()?;
            let is_ready = self.polled[..n_wanted]
                .iter()
                .any(|asked| !asked.revents().is_empty());
            self.see_readers(n_wanted)?;
            if is_ready || n_wanted == 0 {
                break;
            }
            let side = if waits_for_source {
                Side::Source
            } else {
                Side::Sink
            };
            let progress = self.progress(Some(side));
            if self
                .clock
                .observe_if_due(&self.kernel, &progress)
                .is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Adds the sinks whose readers may go away, if the caller wants to know at once.
    fn watch_readers(&mut self) {
        if !self.options.watch_readers {
            return;
        }
        let watched = self.branches.iter().filter(|b| is_watched(b));
        let watched = watched
            .map(|branch| PollFd::from_borrowed_fd(branch.route.sink.fd, PollFlags::empty()));
        self.polled.extend(watched);
    }

    /// Ends the sinks whose readers have gone. They stand in the order of the branches, after the
    /// first `n_wanted` descriptors.
    fn see_readers(&mut self, n_wanted: usize) -> Result<(), Failure> {
        if !self.options.watch_readers {
            return Ok(());
        }
        let mut place = n_wanted;
        for index in 0..self.branches.len() {
            if !is_watched(&self.branches[index]) {
                continue;
            }
            let found = self.polled[place].revents();
            place += 1;
            if found.intersects(PollFlags::ERR | PollFlags::HUP) {
                self.sink_failed(index, Fault::new("poll", Side::Sink, Errno::PIPE))?;
            }
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<(), Failure> {
        let timeout = self.clock.until_tick(&self.kernel);
        match self.kernel.poll(&mut self.polled, timeout) {
            Ok(_) => Ok(()),
            Err(Errno::INTR) => {
                for asked in &mut self.polled {
                    asked.clear_revents();
                }
                Ok(())
            }
            Err(errno) => Err(Fault::new("poll", Side::Neither, errno).into()),
        }
    }
}

fn is_watched(branch: &super::Branch<'_>) -> bool {
    let kind = branch.route.sink.endpoint.kind;
    branch.is_live() && matches!(kind, Kind::Pipe | Kind::Stream)
}
