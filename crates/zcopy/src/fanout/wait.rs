//! Where a fan-out sleeps: for its source, and for sinks that are not ready.

use std::ops::ControlFlow;
use std::time::Duration;

use super::Fanout;
use super::hub::Form;
use crate::endpoint::Kind;
use crate::engine::{FALSE_STARTS, LULL};
use crate::error::Failure;
use crate::fault::{Fault, Side};
use crate::pipe;
use crate::report::Ended;
use crate::sys::{Errno, Kernel, Patience, PollFd, PollFlags};

/// How long the reader of a socket may have gone before that is seen, where poll cannot be left to tell.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl<K: Kernel> Fanout<'_, K> {
    /// Waits until the source has bytes or has ended, where the next call would do so unwatched, or
    /// would speak of a sink though there is nothing to give it.
    pub(super) fn wait_for_source(&mut self) -> Result<Option<Ended>, Failure> {
        let can_starve = self.hub.route.source.endpoint.can_starve();
        let would_sleep = can_starve && self.patience() == Patience::NoWait;
        if !would_sleep {
            return Ok(None);
        }
        let source = self.hub.route.source.fd;
        if self.may_lack_writer && !self.hub.route.source.is_readable(&self.kernel) {
            if self.hub.form == Form::Buffer {
                // A read tells. It does not wait, since such a pipe is in non-blocking mode.
                self.may_lack_writer = false;
                return Ok(None);
            }
            match pipe::peek(&self.kernel, source) {
                Ok(0) => return Ok(Some(Ended::Eof)),
                Ok(_) | Err(Errno::AGAIN) => {}
                // A kernel without tee cannot tell. The next step can: it does not wait, and if it finds
                // that there is a writer, but no bytes, `wait_after` sleeps.
                Err(_) => return Ok(None),
            }
        }
        self.may_lack_writer = false;
        if self.clock.ticks()
            && self
                .hub
                .route
                .source
                .is_never_ready(&self.kernel, Side::Source)
        {
            // A read will say why nothing comes, which no wait would.
            return Ok(None);
        }
        let since = self.start_of_wait();
        loop {
            self.polled.clear();
            let asked = PollFd::from_borrowed_fd(source, PollFlags::IN);
            self.polled.push(asked);
            self.watch_readers();
            let left = self.source_patience(since);
            self.poll(left)?;
            let found = self.polled[0].revents();
            self.see_readers(1)?;
            if !self.branches.iter().any(super::Branch::is_live) {
                return Ok(Some(Ended::NoSink));
            }
            if !found.is_empty() {
                return Ok(None);
            }
            let progress = self.progress(Some(Side::Source));
            let watched = self.clock.observe_if_due(&self.kernel, &progress);
            if watched.is_break() {
                return Ok(Some(Ended::Stopped));
            }
            if self.source_patience(since) == Some(Duration::ZERO) {
                return Err(Fault::new("read", Side::Source, Errno::AGAIN).into());
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
        // Though every sink has everything that was taken, one that is full may keep more from coming.
        let waits_for_source = !self.branches.iter().any(|b| b.is_live() && b.blocked);
        let since = self.start_of_wait();
        for branch in self.branches.iter_mut().filter(|b| b.blocked) {
            branch.blocked_since.get_or_insert(since);
        }
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
            if n_wanted == 0 {
                break;
            }
            self.watch_readers();
            let left = if waits_for_source {
                self.source_patience(since)
            } else {
                self.sinks_patience()
            };
            self.poll(left)?;
            let is_ready = self.polled[..n_wanted]
                .iter()
                .any(|asked| !asked.revents().is_empty());
            self.see_readers(n_wanted)?;
            if is_ready || !self.branches.iter().any(super::Branch::is_live) {
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
            if waits_for_source && self.source_patience(since) == Some(Duration::ZERO) {
                return Err(Fault::new("read", Side::Source, Errno::AGAIN).into());
            }
            self.end_those_out_of_patience()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The time, where a wait by poll takes the place of a call that has a time-out of its own.
    fn start_of_wait(&self) -> Duration {
        match self.patience() {
            Patience::NoWait => self.kernel.now(),
            Patience::Block => Duration::ZERO,
        }
    }

    /// What is left of the source's own time-out in a wait that began at `since`.
    fn source_patience(&mut self, since: Duration) -> Option<Duration> {
        if self.patience() == Patience::Block {
            return None;
        }
        let waited = self.kernel.now().saturating_sub(since);
        let source = &mut self.hub.route.source;
        source.until_timed_out(&self.kernel, Side::Source, waited)
    }

    /// The same for the least patient of the sinks that are waited for.
    fn sinks_patience(&mut self) -> Option<Duration> {
        if self.patience() == Patience::Block {
            return None;
        }
        let now = self.kernel.now();
        let blocked = self.branches.iter_mut();
        let blocked = blocked.filter(|b| b.is_live() && b.blocked);
        blocked
            .filter_map(|branch| branch.patience(&self.kernel, now))
            .min()
    }

    /// Ends the sinks whose own time-outs are over.
    fn end_those_out_of_patience(&mut self) -> Result<(), Failure> {
        if self.patience() == Patience::Block {
            return Ok(());
        }
        let now = self.kernel.now();
        for index in 0..self.branches.len() {
            let branch = &mut self.branches[index];
            let is_waited_for = branch.is_live() && branch.blocked;
            if is_waited_for && branch.patience(&self.kernel, now) == Some(Duration::ZERO) {
                self.sink_failed(index, Fault::new("write", Side::Sink, Errno::AGAIN))?;
            }
        }
        Ok(())
    }

    /// Adds the sinks whose readers may go away, if the caller wants to know at once.
    fn watch_readers(&mut self) {
        if !self.options.watch_readers {
            return;
        }
        let watched = self.branches.iter();
        let watched = watched.filter(|b| is_watched(b) && !b.has_completions);
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
            let branch = &self.branches[index];
            if !is_watched(branch) || branch.has_completions {
                continue;
            }
            let found = self.polled[place].revents();
            place += 1;
            self.see_reader(index, found)?;
        }
        for index in 0..self.branches.len() {
            let branch = &self.branches[index];
            if is_watched(branch) && branch.has_completions {
                let mut asked = [PollFd::from_borrowed_fd(
                    branch.route.sink.fd,
                    PollFlags::empty(),
                )];
                // If the question fails, it is asked again.
                let _ = self.kernel.poll(&mut asked, Some(Duration::ZERO));
                self.see_reader(index, asked[0].revents())?;
            }
        }
        Ok(())
    }

    /// Ends a sink if its reader has gone.
    ///
    /// `POLLERR` alone is not believed of a socket: it may say that completions of `MSG_ZEROCOPY` wait in the error queue,
    /// which is the caller's to read. `SO_ERROR` tells.
    fn see_reader(&mut self, index: usize, found: PollFlags) -> Result<(), Failure> {
        let branch = &mut self.branches[index];
        let sink = &branch.route.sink;
        let is_doubtful = sink.endpoint.kind == Kind::Stream
            && found.contains(PollFlags::ERR)
            && !found.contains(PollFlags::HUP);
        branch.has_completions = is_doubtful && self.kernel.socket_error(sink.fd) == Ok(None);
        if found.intersects(PollFlags::ERR | PollFlags::HUP) && !branch.has_completions {
            self.sink_failed(index, Fault::new("poll", Side::Sink, Errno::PIPE))?;
        }
        Ok(())
    }

    /// Polls until the next tick, or until somebody's patience ends.
    fn poll(&mut self, left: Option<Duration>) -> Result<(), Failure> {
        // A socket with completions would end every poll at once, so that it is looked at now and then.
        let mut branches = self.branches.iter();
        let looks_again = branches.any(|branch| is_watched(branch) && branch.has_completions);
        let timeout = [
            self.clock.until_tick(&self.kernel),
            left,
            looks_again.then_some(LOOK_AGAIN),
        ];
        let timeout = timeout.into_iter().flatten().min();
        match self.kernel.poll(&mut self.polled, timeout) {
            Ok(_) => Ok(()),
            Err(Errno::INTR) => {
                self.clock.interrupt();
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
