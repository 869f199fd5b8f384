//! A branch: one of several sinks, and how its bytes get there.

use std::time::Duration;

use super::hub::Hub;
use crate::cache::Trail;
use crate::endpoint::Kind;
use crate::fault::{Cause, Fault};
use crate::options::SyncData;
use crate::report::SinkReport;
use crate::route::{Ask, Route};
use crate::side::Side;
use crate::step::{self, Step, buffered, splice_pipe};
use crate::strategy::Strategy;
use crate::sys::{Errno, Kernel, Patience};

/// One of several sinks.
///
/// What it has been given and has not yet accepted lies in its own private pipe and buffer, or, if it
/// is written to, in the hub's buffer.
#[allow(clippy::struct_excessive_bools, reason = "facts, one by one")]
pub(crate) struct Branch<'a> {
    /// Its sink and its private pipe. Nothing is taken from the source this way.
    pub(crate) route: Route<'a>,
    /// How it is served: by `tee` into the sink, which is a pipe; by `splice_pipe`, out of a private
    /// pipe that is tee'd into; by `splice` out of the hub, after all of these; or, `buffered`, by
    /// writing what is in the hub's buffer.
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
    pub(crate) trail: Option<Trail>,
}

impl<'a> Branch<'a> {
    pub(crate) fn new(route: Route<'a>, way: Strategy, trail: Option<Trail>) -> Self {
        Self {
            route,
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
            trail,
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        !self.is_detached
    }

    /// Whether it is given its bytes by `tee`, before they are taken out of the hub.
    pub(crate) fn is_shared_with(&self) -> bool {
        matches!(self.way, Strategy::Tee | Strategy::SplicePipe)
    }

    /// Has it given its bytes by `tee`, rather than take them out of the hub.
    pub(crate) fn be_shared_with(&mut self) {
        self.way = match self.route.sink.endpoint.kind {
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
    pub(crate) fn is_ready<K: Kernel>(&mut self, kernel: &K, patience: Patience) -> bool {
        let kind = self.route.sink.endpoint.kind;
        let is_told = kind == Kind::Pipe && self.way != Strategy::Buffered;
        let is_ready = patience == Patience::Block
            || is_told
            || !self.route.sink.endpoint.can_block()
            || self.route.sink.is_writable(kernel)
            || self.route.sink.is_never_ready(kernel, Side::Sink);
        self.blocked = !is_ready;
        is_ready
    }

    /// Shares up to `len` bytes at the head of the hub with it.
    pub(crate) fn share<K: Kernel>(
        &mut self,
        kernel: &K,
        hub: &mut Hub<'_>,
        len: u64,
        patience: Patience,
    ) -> Result<Step, Fault> {
        let step = if self.way == Strategy::Tee {
            hub.share(kernel, self.route.sink.fd, len, patience)?
        } else {
            let pipe = match self.route.take_pipe(kernel) {
                Ok(pipe) => self.route.pipe.insert(pipe),
                Err(_) if self.route.sink.endpoint.kind == Kind::Pipe => {
                    self.way = Strategy::Tee;
                    return self.share(kernel, hub, len, patience);
                }
                Err(errno) => return Ok(Step::Unsupported(errno.into())),
            };
            // It is empty: what has no room goes with the next call.
            hub.share(kernel, pipe.writer(), len, Patience::NoWait)?
        };
        if let Step::Moved(n) = step {
            self.taken += n;
            self.has_spliced = true;
            match &mut self.route.pipe {
                Some(pipe) if self.way == Strategy::SplicePipe => pipe.in_flight += n,
                _ => {
                    self.accepted(n);
                    self.route.sink.advance(n);
                }
            }
        }
        Ok(step)
    }

    /// Gives the sink what waits in the private pipe, in one call.
    pub(crate) fn drain<K: Kernel>(
        &mut self,
        kernel: &K,
        patience: Patience,
    ) -> Result<Step, Fault> {
        let max = self.route.sink.prompt_len(kernel, patience);
        let ask = Ask {
            max,
            remaining: max,
            patience,
        };
        let step = match self.drains_by {
            Strategy::SplicePipe => splice_pipe::drain(kernel, &mut self.route, &ask)?,
            by => step::step(by, kernel, &mut self.route, &ask)?,
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

    /// Writes once from the hub's buffer.
    pub(crate) fn write<K: Kernel>(
        &mut self,
        kernel: &K,
        hub: &Hub<'_>,
        patience: Patience,
    ) -> Result<Step, Fault> {
        let bytes = hub.buffered_at(self.delivered);
        let max = self.route.sink.prompt_len(kernel, patience) as usize;
        let bytes = match self.route.sink.endpoint.kind {
            Kind::Datagram => bytes,
            _ => &bytes[..bytes.len().min(max)],
        };
        self.route.calls += 1;
        let Route {
            sink, sink_detour, ..
        } = &mut self.route;
        let step = buffered::pour(kernel, sink, sink_detour, bytes, patience)?;
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
        patience: Patience,
    ) -> Result<(), Fault> {
        let sink = &mut self.route.sink;
        if sink.has_timed_out(kernel, Side::Sink, patience) {
            return Err(Fault::new("write", Side::Sink, Errno::AGAIN));
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
    pub(crate) fn sync_data<K: Kernel>(&mut self, kernel: &K, when: SyncData) -> Result<(), Fault> {
        if self.synced == self.delivered {
            return Ok(());
        }
        self.synced = self.delivered;
        self.route.sink.sync_data(kernel, when)
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
