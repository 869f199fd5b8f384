//! The state of one of several sinks, and the calls that give it bytes.

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
use crate::sys::{Blocking, Kernel, SocketType};

/// One of several sinks.
///
/// Bytes that it has been given and has not accepted are in its own private pipe and buffer, or, if
/// it is written to, in the backlog's buffer.
#[allow(clippy::struct_excessive_bools, reason = "facts, one by one")]
pub(crate) struct SinkState<'a> {
    /// The sink and its private pipe. Its source is not used.
    pub(crate) state: CopyState<'a>,
    /// How the sink gets its bytes: [`Tee`](Strategy::Tee) into the sink, which is a pipe;
    /// [`SplicePipe`](Strategy::SplicePipe), through a private pipe that `tee` fills;
    /// [`Splice`](Strategy::Splice) out of the backlog, after all of these (the consuming sink);
    /// [`Buffered`](Strategy::Buffered), by writes from the backlog's buffer.
    pub(crate) served_by: Strategy,
    /// How it is served again after a round whose bytes are written to it for once.
    resumes_with: Option<Strategy>,
    /// How many bytes it has accepted in such rounds.
    written_for_once: u64,
    /// How its private pipe is drained: by splice, or, if the sink refuses that, by read and write.
    pub(crate) drained_by: Strategy,
    /// How many bytes of the stream it has been given.
    pub(crate) given: u64,
    /// How many of them the sink has accepted.
    pub(crate) delivered: u64,
    /// How many of those have been synced to the disk.
    synced: u64,
    /// Whether it, or its private pipe, has been given pages by reference, by `tee` or `splice`.
    pub(crate) has_shared_pages: bool,
    /// Why it failed.
    pub(crate) failed_with: Option<Cause>,
    /// Whether the transfer goes on without it.
    pub(crate) is_detached: bool,
    /// Whether this step found it not ready.
    pub(crate) blocked: bool,
    /// When it first blocked since it last accepted bytes.
    pub(crate) blocked_since: Option<Duration>,
    /// Whether its socket polls as broken although it is not: completions of `MSG_ZEROCOPY` of
    /// another process wait in its error queue.
    pub(crate) has_completions: bool,
    /// Whether the fan-out ends it when its reader closes.
    pub(crate) is_watched: bool,
    pub(crate) drop_window: Option<DropWindow>,
}

impl<'a> SinkState<'a> {
    pub(crate) fn new(
        state: CopyState<'a>,
        served_by: Strategy,
        drop_window: Option<DropWindow>,
    ) -> Self {
        Self {
            state,
            served_by,
            resumes_with: None,
            written_for_once: 0,
            drained_by: Strategy::SplicePipe,
            given: 0,
            delivered: 0,
            synced: 0,
            has_shared_pages: false,
            failed_with: None,
            is_detached: false,
            blocked: false,
            blocked_since: None,
            has_completions: false,
            is_watched: false,
            drop_window,
        }
    }

    /// Serves it by writes until the end of the round.
    pub(crate) fn write_this_round(&mut self) {
        self.resumes_with.get_or_insert(self.served_by);
        self.served_by = Strategy::Buffered;
    }

    /// Ends what [`write_this_round`](Self::write_this_round) began.
    pub(crate) fn end_round(&mut self) {
        if let Some(strategy) = self.resumes_with.take() {
            self.served_by = strategy;
        }
    }

    /// Serves it by writes in this round and all others. Its private pipe is empty, and its pages
    /// count against the user's limit for pipes.
    pub(crate) fn write_always(&mut self) {
        self.served_by = Strategy::Buffered;
        self.resumes_with = None;
        self.state.pipe = None;
    }

    /// Returns how it is served if it is not written to for once.
    pub(crate) fn usually_served_by(&self) -> Strategy {
        self.resumes_with.unwrap_or(self.served_by)
    }

    /// Lets the fan-out end the sink when its reader closes, if a poll tells of that.
    pub(crate) fn watch<K: Kernel>(&mut self, kernel: &K) {
        let sink = &self.state.sink;
        self.is_watched = match sink.info.kind {
            Kind::Pipe | Kind::Stream => true,
            Kind::Datagram => kernel.socket_type(sink.fd) == Ok(SocketType::SEQPACKET),
            _ => false,
        };
    }

    pub(crate) fn is_live(&self) -> bool {
        !self.is_detached
    }

    /// Returns whether `tee` gives it its bytes, before they are taken out of the backlog.
    pub(crate) fn uses_tee(&self) -> bool {
        matches!(self.served_by, Strategy::Tee | Strategy::SplicePipe)
    }

    /// Makes `tee` give it its bytes, instead of a splice out of the backlog.
    pub(crate) fn use_tee(&mut self) {
        self.served_by = match self.state.sink.info.kind {
            Kind::Pipe => Strategy::Tee,
            _ => Strategy::SplicePipe,
        };
    }

    /// Returns whether a call for this sink would not sleep, and notes in `blocked` if it would.
    /// `SPLICE_F_NONBLOCK` covers pipes; other sinks are polled, if calls may not sleep.
    pub(crate) fn check_ready<K: Kernel>(&mut self, kernel: &K, blocking: Blocking) -> bool {
        let kind = self.state.sink.info.kind;
        let can_be_nonblocking = kind == Kind::Pipe && self.served_by != Strategy::Buffered;
        let is_ready = blocking == Blocking::MaySleep
            || can_be_nonblocking
            || !self.state.sink.info.can_block()
            || self.state.sink.is_writable(kernel)
            || self.state.sink.is_never_ready(kernel, Side::Sink);
        self.blocked = !is_ready;
        is_ready
    }

    /// Duplicates up to `len` bytes at the head of the backlog for it.
    pub(crate) fn tee<K: Kernel>(
        &mut self,
        kernel: &K,
        backlog: &mut Backlog<'_>,
        len: u64,
        blocking: Blocking,
    ) -> Result<Step, CallError> {
        let step = if self.served_by == Strategy::Tee {
            backlog.tee_to(kernel, self.state.sink.fd, len, blocking)?
        } else {
            let pipe = match self.state.take_pipe(kernel) {
                Ok(pipe) => self.state.pipe.insert(pipe),
                Err(_) if self.state.sink.info.kind == Kind::Pipe => {
                    self.served_by = Strategy::Tee;
                    return self.tee(kernel, backlog, len, blocking);
                }
                Err(errno) => return Ok(Step::Unsupported(errno.into())),
            };
            // The private pipe is empty. What it has no room for goes with the next call.
            backlog.tee_to(kernel, pipe.writer(), len, Blocking::Nonblocking)?
        };
        if let Step::Moved(n) = step {
            self.given += n;
            self.has_shared_pages = true;
            match &mut self.state.pipe {
                Some(pipe) if self.served_by == Strategy::SplicePipe => pipe.in_flight += n,
                _ => {
                    self.accepted(n);
                    self.state.sink.advance(n);
                }
            }
        }
        Ok(step)
    }

    /// Moves bytes from the private pipe to the sink, in one call.
    pub(crate) fn drain<K: Kernel>(
        &mut self,
        kernel: &K,
        blocking: Blocking,
    ) -> Result<Step, CallError> {
        let max = self.state.sink.nonblocking_len(kernel, blocking);
        let budget = StepBudget {
            max,
            until_limit: max,
            blocking,
        };
        let step = match self.drained_by {
            Strategy::SplicePipe => splice_pipe::drain(kernel, &mut self.state, &budget)?,
            by => step::step(by, kernel, &mut self.state, &budget)?,
        };
        match step {
            Step::Moved(n) => self.accepted(n),
            Step::Unsupported(_) => {
                self.drained_by = Strategy::Buffered;
                return Ok(Step::Filled);
            }
            _ => {}
        }
        Ok(step)
    }

    /// Writes once from the backlog's buffer.
    pub(crate) fn write<K: Kernel>(
        &mut self,
        kernel: &K,
        backlog: &Backlog<'_>,
        blocking: Blocking,
    ) -> Result<Step, CallError> {
        let bytes = backlog.buffered_at(self.delivered);
        let max = self.state.sink.nonblocking_len(kernel, blocking) as usize;
        let (source, sink) = (backlog.state.source.info.kind, self.state.sink.info.kind);
        let max = match sink {
            Kind::Datagram => buffered::longest_write(source, sink),
            _ => max,
        };
        let bytes = &bytes[..bytes.len().min(max)];
        self.state.calls += 1;
        let CopyState {
            sink,
            sink_reopened,
            ..
        } = &mut self.state;
        let step = buffered::write_once(kernel, sink, sink_reopened, bytes, blocking)?;
        if let Step::Moved(n) = step {
            self.accepted(n);
            self.given = self.delivered;
            if self.resumes_with.is_some() {
                self.written_for_once += n;
            }
        }
        Ok(step)
    }

    /// Counts `n` bytes that the sink has accepted.
    pub(crate) fn accepted(&mut self, n: u64) {
        self.delivered += n;
        self.blocked_since = None;
    }

    /// Syncs what the sink has accepted to the disk, if the caller wants that, and drops the pages
    /// behind it from the page cache.
    pub(crate) fn sync<K: Kernel>(&mut self, kernel: &K, when: SyncData) -> Result<(), CallError> {
        self.sync_data(kernel, when)?;
        match &mut self.drop_window {
            Some(drop_window) => drop_window.advance_written(kernel, &self.state.sink),
            None => Ok(()),
        }
    }

    /// Syncs what an interrupted step has left, or everything if `when` is [`SyncData::AtEnd`] and
    /// the sink has not failed; releases the reservation and closes the reopened file.
    pub(crate) fn finish<K: Kernel>(
        &mut self,
        kernel: &K,
        when: SyncData,
    ) -> Result<(), CallError> {
        self.state.sink.release(kernel);
        let synced = match when {
            SyncData::AtEnd if self.failed_with.is_none() => self.state.sink.sync_data(kernel),
            _ => self.sync_data(kernel, when),
        };
        let dropped = match &mut self.drop_window {
            Some(drop_window) => drop_window.finish_written(kernel, &self.state.sink),
            None => Ok(()),
        };
        let closed = self.state.sink_reopened.close(kernel);
        synced.and(dropped).and(closed)
    }

    /// Syncs what the sink has accepted since the last call, if the caller wants that.
    fn sync_data<K: Kernel>(&mut self, kernel: &K, when: SyncData) -> Result<(), CallError> {
        if when != SyncData::EachStep || self.synced == self.delivered {
            return Ok(());
        }
        self.synced = self.delivered;
        self.state.sink.sync_data(kernel)
    }

    /// Returns the strategy that gives the sink its bytes.
    pub(crate) fn strategy(&self) -> Strategy {
        self.named(self.served_by)
    }

    fn named(&self, served_by: Strategy) -> Strategy {
        match served_by {
            Strategy::SplicePipe => self.drained_by,
            served_by => served_by,
        }
    }

    /// Returns the report of this sink so far. `all_have` is the number of bytes that every sink
    /// has accepted.
    pub(crate) fn report(&self, index: usize, all_have: u64) -> SinkReport {
        let strategy = if self.written_for_once > self.delivered / 2 {
            Strategy::Buffered
        } else {
            self.named(self.usually_served_by())
        };
        SinkReport {
            is_detached: self.is_detached,
            index,
            bytes: self.delivered,
            ahead: self.delivered.saturating_sub(all_have),
            strategy: Some(strategy),
            cause: self.failed_with,
        }
    }
}
