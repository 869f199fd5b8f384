//! The state of one of several sinks, and how its bytes get there.

use std::time::Duration;

use super::backlog::Backlog;
use crate::call_error::{CallError, Cause};
use crate::copy_state::{CopyState, StepBudget};
use crate::drop_window::DropWindow;
use crate::fd_info::Kind;
use crate::options::SyncData;
use crate::report::SinkReport;
use crate::side::Side;
use crate::step::{self, Step, buffered, splice_pipe};
use crate::strategy::Strategy;
use crate::sys::{Blocking, Errno, Kernel};

/// One of several sinks.
///
/// What it has been given and has not yet accepted lies in its own private pipe and buffer, or, if it
/// is written to, in the backlog's buffer.
#[allow(clippy::struct_excessive_bools, reason = "facts, one by one")]
pub(crate) struct SinkState<'a> {
    /// Its sink and its private pipe. Nothing is taken from the source this way.
    pub(crate) state: CopyState<'a>,
    /// How it is served: by `tee` into the sink, which is a pipe; by `splice_pipe`, out of a private
    /// pipe that is tee'd into; by `splice` out of the backlog, after all of these; or, `buffered`, by
    /// writing what is in the backlog's buffer.
    pub(crate) way: Strategy,
    /// Out of its private pipe by splice, or, where the sink refuses that, by read and write.
    drains_by: Strategy,
    /// How many bytes of the stream it has been given.
    pub(crate) taken: u64,
    /// How many of them its sink has accepted.
    pub(crate) delivered: u64,
    /// How many of those have been brought to the disk, if that is wanted.
    synced: u64,
    /// Whether it has been given pages, rather than bytes that were written.
    pub(crate) has_spliced: bool,
    /// What ended it before the end.
    pub(crate) ended: Option<Cause>,
    /// Whether the transfer goes on without it.
    pub(crate) is_detached: bool,
    /// Whether this step found its sink not ready.
    pub(crate) blocked: bool,
    /// Since when it has not moved, if it was waited for.
    pub(crate) blocked_since: Option<Duration>,
    /// Whether its socket polls as broken though it is not: completions of somebody's `MSG_ZEROCOPY` wait to be read.
    pub(crate) has_completions: bool,
    pub(crate) drop_window: Option<DropWindow>,
}

impl<'a> SinkState<'a> {
    pub(crate) fn new(
        state: CopyState<'a>,
        way: Strategy,
        drop_window: Option<DropWindow>,
    ) -> Self {
        Self {
            state,
            way,
            drains_by: Strategy::SplicePipe,
            taken: 0,
            delivered: 0,
            synced: 0,
            has_spliced: false,
            ended: None,
            is_detached: false,
            blocked: false,
            blocked_since: None,
            has_completions: false,
            drop_window,
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        !self.is_detached
    }

    /// Whether it is given its bytes by `tee`, before they are taken out of the backlog.
    pub(crate) fn is_shared_with(&self) -> bool {
        matches!(self.way, Strategy::Tee | Strategy::SplicePipe)
    }

    /// Has it given its bytes by `tee`, rather than take them out of the backlog.
    pub(crate) fn be_shared_with(&mut self) {
        self.way = match self.state.sink.info.kind {
            Kind::Pipe => Strategy::Tee,
            _ => Strategy::SplicePipe,
        };
    }

    /// Has it given its share through a private pipe, though it is one.
    pub(crate) fn have_a_pipe_of_its_own(&mut self) {
        if self.way == Strategy::Tee {
            self.way = Strategy::SplicePipe;
        }
    }

    /// Whether a call for this sink would go at once. A pipe can be told not to wait; everything
    /// else is asked first, if nothing may wait.
    pub(crate) fn is_ready<K: Kernel>(&mut self, kernel: &K, blocking: Blocking) -> bool {
        let kind = self.state.sink.info.kind;
        let is_told = kind == Kind::Pipe && self.way != Strategy::Buffered;
        let is_ready = blocking == Blocking::MaySleep
            || is_told
            || !self.state.sink.info.can_block()
            || self.state.sink.is_writable(kernel)
            || self.state.sink.is_never_ready(kernel, Side::Sink);
        self.blocked = !is_ready;
        is_ready
    }

    /// Shares up to `len` bytes at the head of the backlog with it.
    pub(crate) fn share<K: Kernel>(
        &mut self,
        kernel: &K,
        backlog: &mut Backlog<'_>,
        len: u64,
        blocking: Blocking,
    ) -> Result<Step, CallError> {
        let step = if self.way == Strategy::Tee {
            backlog.share(kernel, self.state.sink.fd, len, blocking)?
        } else {
            let pipe = match self.state.take_pipe(kernel) {
                Ok(pipe) => self.state.pipe.insert(pipe),
                Err(_) if self.state.sink.info.kind == Kind::Pipe => {
                    self.way = Strategy::Tee;
                    return self.share(kernel, backlog, len, blocking);
                }
                Err(errno) => return Ok(Step::Unsupported(errno.into())),
            };
            // It is empty: what has no room goes with the next call.
            backlog.share(kernel, pipe.writer(), len, Blocking::Nonblocking)?
        };
        if let Step::Moved(n) = step {
            self.taken += n;
            self.has_spliced = true;
            match &mut self.state.pipe {
                Some(pipe) if self.way == Strategy::SplicePipe => pipe.in_flight += n,
                _ => {
                    self.accepted(n);
                    self.state.sink.advance(n);
                }
            }
        }
        Ok(step)
    }

    /// Gives the sink what waits in the private pipe, in one call.
    pub(crate) fn drain<K: Kernel>(
        &mut self,
        kernel: &K,
        blocking: Blocking,
    ) -> Result<Step, CallError> {
        let max = self.state.sink.prompt_len(kernel, blocking);
        let budget = StepBudget {
            max,
            remaining: max,
            blocking,
        };
        let step = match self.drains_by {
            Strategy::SplicePipe => splice_pipe::drain(kernel, &mut self.state, &budget)?,
            by => step::step(by, kernel, &mut self.state, &budget)?,
        };
        match step {
            Step::Moved(n) => self.accepted(n),
            Step::Unsupported(_) => {
                self.write_out_of_its_pipe();
                return Ok(Step::Filled);
            }
            _ => {}
        }
        Ok(step)
    }

    /// Has what waits in the private pipe read and written from now on.
    pub(crate) fn write_out_of_its_pipe(&mut self) {
        self.drains_by = Strategy::Buffered;
    }

    /// Writes once from the backlog's buffer.
    pub(crate) fn write<K: Kernel>(
        &mut self,
        kernel: &K,
        backlog: &Backlog<'_>,
        blocking: Blocking,
    ) -> Result<Step, CallError> {
        let bytes = backlog.buffered_at(self.delivered);
        let max = self.state.sink.prompt_len(kernel, blocking) as usize;
        let bytes = match self.state.sink.info.kind {
            Kind::Datagram => bytes,
            _ => &bytes[..bytes.len().min(max)],
        };
        self.state.calls += 1;
        let CopyState {
            sink,
            sink_reopened,
            ..
        } = &mut self.state;
        let step = buffered::pour(kernel, sink, sink_reopened, bytes, blocking)?;
        if let Step::Moved(n) = step {
            self.accepted(n);
            self.taken = self.delivered;
        }
        Ok(step)
    }

    /// Notes that its sink is to be waited for, unless its own `SO_SNDTIMEO` has answered. Without one `EAGAIN` spoke of
    /// the pipe that was to be spliced from.
    pub(crate) fn blocked<K: Kernel>(
        &mut self,
        kernel: &K,
        blocking: Blocking,
    ) -> Result<(), CallError> {
        let sink = &mut self.state.sink;
        if sink.has_timed_out(kernel, Side::Sink, blocking) {
            return Err(CallError::new("write", Side::Sink, Errno::AGAIN));
        }
        self.blocked = true;
        Ok(())
    }

    /// Notes that the sink has accepted `n` bytes.
    pub(crate) fn accepted(&mut self, n: u64) {
        self.delivered += n;
        self.blocked_since = None;
    }

    /// Brings what its sink has accepted to the disk, where that is wanted.
    pub(crate) fn sync_data<K: Kernel>(
        &mut self,
        kernel: &K,
        when: SyncData,
    ) -> Result<(), CallError> {
        if self.synced == self.delivered {
            return Ok(());
        }
        self.synced = self.delivered;
        self.state.sink.sync_data(kernel, when)
    }

    /// What gives its sink the bytes.
    pub(crate) fn strategy(&self) -> Strategy {
        match self.way {
            Strategy::SplicePipe => self.drains_by,
            way => way,
        }
    }

    /// What it came to so far.
    pub(crate) fn report(&self, index: usize) -> SinkReport {
        SinkReport {
            index,
            bytes: self.delivered,
            strategy: self.strategy(),
            cause: self.ended,
        }
    }
}
