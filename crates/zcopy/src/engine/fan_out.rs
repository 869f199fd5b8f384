//! One source, several sinks: every byte is moved once and shared with all.
//!
//! Bytes wait in the [`hub`], a pipe, until every sink has them; each sink is a [`branch`]. Sinks
//! that splice are given a share by `tee(2)`, which copies nothing; when all have it, the last of them
//! takes the bytes out of the hub. Sinks that must be written to (appending files, terminals) share
//! one buffer, and then it is the buffer that takes the bytes out. All are served in step: the next
//! bytes have their turn when every sink has accepted these.

use crate::cache::Trail;
use crate::context::{Context, refused};
use crate::end::End;
use crate::endpoint::Kind;
use crate::engine::{Audience, Engine, Flow, SinkPolicy};
use crate::error::{Error, Failure};
use crate::fault::{Cause, Fault};
use crate::options::{Cache, Options};
use crate::pace::Pace;
use crate::plan::{self, Plan};
use crate::progress::Progress;
use crate::records::Records;
use crate::report::{Ended, Report};
use crate::route::{Inspector, Route};
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::Kernel;
use crate::wait::Wait;
use branch::Branch;
use hub::{Form, Hub};
use wait::Waiting;

mod branch;
mod finish;
mod hub;
mod pipes;
mod share;
mod wait;

#[cfg(test)]
mod tests;

/// No pipe of an unprivileged user holds more in full pages; slots of several pages may. Whoever asks for
/// larger pipes has them filled.
const BOUND: u64 = 4 << 20;

/// A transfer to several sinks under way.
pub(crate) struct FanOutEngine<'a, K> {
    context: Context<'a, K>,
    policy: SinkPolicy<'a>,
    inspect: Option<Inspector<'a>>,
    records: Records,
    hub: Hub<'a>,
    branches: Vec<Branch<'a>>,
    /// The sink that was detached last.
    detached_last: usize,
    source_trail: Option<Trail>,
    /// Where the bytes begin that are being shared now.
    share_start: u64,
    /// Where they end, once that is known.
    share_end: Option<u64>,
    /// Where they must end at the latest.
    bound: u64,
    /// The bytes that every sink had accepted when the pace and the inspector were last told.
    told: u64,
    may_take_turns: bool,
    /// Whether the source may be a FIFO that nobody has opened for writing yet, which does not poll as ended.
    may_lack_writer: bool,
    /// What was being waited for.
    waiting: Option<Waiting>,
}

impl<'a, K: Kernel> FanOutEngine<'a, K> {
    /// A transfer from `source` to all of `sinks`, the first of which is the caller's main one.
    pub(crate) fn new(
        kernel: K,
        source: End<'a>,
        sinks: Vec<End<'a>>,
        plan: &Plan,
        options: Options,
        audience: Audience<'a>,
        policy: SinkPolicy<'a>,
    ) -> Self {
        let drops = options.cache == Cache::DropBehind;
        let trail = |end: &End<'_>| drops.then(|| Trail::of(end)).flatten();
        // Whatever is read at once must fit one message, if there is a sink for messages.
        let written_to = sinks
            .iter()
            .find(|sink| sink.endpoint.kind == Kind::Datagram)
            .unwrap_or(&sinks[0]);
        // It stands for all of them, and takes nothing itself.
        let mut written_to = written_to.clone();
        written_to.endpoint.direct = sinks.iter().any(|sink| sink.endpoint.direct);
        let form = match plan.strategy() {
            Strategy::Tee => Form::Pipe,
            _ => Form::Buffer,
        };
        let from = source.endpoint;
        let branches: Vec<_> = sinks
            .into_iter()
            .zip(plan.sinks())
            .map(|(mut sink, way)| {
                if options.strategy.is_some() {
                    sink.ignore_room();
                }
                let trail = trail(&sink);
                // What it takes comes out of the hub: nothing is read from its copy of the source.
                let route = Route::new(source.clone(), sink).sized(&options);
                Branch::new(route, way.strategy(), trail)
            })
            .collect();
        let total = plan::remaining(&from, &options);
        Self {
            policy,
            inspect: audience.inspect,
            records: Records::new(&kernel, options.records),
            source_trail: trail(&source),
            hub: Hub {
                form,
                route: Route::new(source, written_to).sized(&options),
                head: 0,
                surplus: Vec::new(),
            },
            branches,
            detached_last: 0,
            share_start: 0,
            share_end: None,
            bound: 0,
            told: 0,
            may_take_turns: form != Form::Buffer && from.kind == Kind::Pipe,
            may_lack_writer: from.kind == Kind::Pipe && from.nonblocking,
            waiting: None,
            context: Context::new(kernel, options, plan.strategy(), audience.observer, total),
        }
    }

    /// Paces the transfer by the caller's rate limiter, if there is one.
    pub(crate) fn keep(&mut self, pace: Option<&'a Pace>) {
        self.context.pacer.keep(&self.context.kernel, pace);
    }

    /// Before more is taken from the source: the limit, the rate, and whether there is anything. An answer means that no
    /// round begins now.
    fn begin(&mut self) -> Result<Option<Flow>, Failure> {
        let left = self.context.left(self.hub.head);
        if left == 0 {
            return Ok(Some(Flow::Ended(Ended::Limit)));
        }
        let allowed = match self.context.pacer.allow(&self.context.kernel, left) {
            Ok(allowed) => allowed.min(BOUND.max(self.hub.route.pipe_size as u64)),
            Err(time) => return Ok(Some(Flow::Wait(Wait::Time(time)))),
        };
        self.give_up_a_shared_cursor()?;
        self.give_lone_reader_a_pipe();
        self.bound = self.hub.head + allowed;
        self.share_start = self.hub.head;
        self.share_end = None;
        self.grow_pipes();
        Ok(self.wait_for_source())
    }

    /// Does everything that can be done now for every sink, one call each.
    fn take_step(&mut self) -> Result<Flow, Failure> {
        let calls = self.calls();
        let by = self.in_use();
        let flow = self.serve();
        self.credit_calls(by, self.calls() - calls);
        self.count();
        flow
    }

    /// What shares the bytes: tee, or one buffer.
    fn in_use(&self) -> Strategy {
        match self.hub.form {
            Form::Buffer => Strategy::Buffered,
            Form::Pipe => Strategy::Tee,
        }
    }

    fn credit_calls(&mut self, by: Strategy, calls: u64) {
        if calls > 0 {
            self.context.attempt(by).calls += calls;
        }
    }

    /// Credits the strategy in use with what every sink has accepted.
    fn count(&mut self) {
        self.context.bytes = self.delivered();
        let counted: u64 = self
            .context
            .attempts
            .iter()
            .map(|attempt| attempt.bytes)
            .sum();
        let n = self.context.bytes - counted;
        if n > 0 {
            let by = self.in_use();
            self.context.attempt(by).bytes += n;
        }
    }

    /// Tells the page cache, the pace and the inspector of what every sink has accepted.
    fn moved(&mut self) -> Result<(), Failure> {
        if let Some(trail) = &mut self.source_trail {
            trail.advance_read(&self.context.kernel, &self.hub.route.source);
        }
        for index in 0..self.branches.len() {
            let synced = self.branches[index]
                .sync_data(&self.context.kernel, self.context.options.sync_data);
            if let Err(fault) = synced {
                self.sink_failed(index, fault)?;
            }
            let Branch { trail, route, .. } = &mut self.branches[index];
            if let Some(trail) = trail
                && let Err(errno) = trail.advance_written(&self.context.kernel, &route.sink)
            {
                let fault = Fault::new("sync_file_range", Side::Sink, errno);
                self.sink_failed(index, fault)?;
            }
        }
        self.count();
        let delivered = self.context.bytes;
        self.context.pacer.spend(delivered - self.told);
        self.told = delivered;
        self.retire();
        Ok(())
    }

    /// Lets go of what every sink that is written to has, counts its records, and shows it to whoever
    /// inspects.
    fn retire(&mut self) {
        let live = || self.branches.iter().filter(|branch| branch.is_live());
        let written = live().filter(|branch| branch.way == Strategy::Buffered);
        let written = written.map(|branch| branch.delivered).min();
        let place = match live().next() {
            Some(_) => written.unwrap_or(self.hub.head),
            // Without a sink all that the last one lacks is to be handed back.
            None => self.delivered(),
        };
        let retired = self.hub.retire(place);
        self.records.accepted(retired);
        if let Some(inspect) = self.inspect.as_mut().filter(|_| !retired.is_empty()) {
            inspect(retired);
        }
    }

    /// What becomes of a sink that failed, and with it of the transfer.
    fn sink_failed(&mut self, index: usize, fault: Fault) -> Result<(), Failure> {
        let branch = &mut self.branches[index];
        if branch.is_detached {
            return Ok(());
        }
        if branch.ended.is_some() {
            // It has failed the transfer already, and what counts is the first failure.
            return Err(fault.into());
        }
        branch.ended = Some(fault.cause);
        branch.route.sink.release(&self.context.kernel);
        let report = branch.report(index);
        if !self.policy.detaches(&report) {
            return Err(fault.into());
        }
        branch.is_detached = true;
        self.detached_last = index;
        // Should it be the last, what it holds may have to be handed back.
        if self.branches.iter().any(Branch::is_live) {
            self.branches[index].route.pipe = None;
        }
        Ok(())
    }

    /// Whether every sink has every byte that has left the source, and nothing waits in the hub, not
    /// even what no sink wants any more.
    fn is_even(&self) -> bool {
        let head = self.hub.head;
        let mut live = self.branches.iter().filter(|branch| branch.is_live());
        self.hub.route.in_flight() == 0 && live.all(|b| b.delivered == head && b.taken == head)
    }

    /// The bytes that every sink which is left has accepted; without any, those of the last.
    fn delivered(&self) -> u64 {
        let live = self.branches.iter().filter(|branch| branch.is_live());
        let least = live.map(|branch| branch.delivered).min();
        least.unwrap_or(self.branches[self.detached_last].delivered)
    }

    fn calls(&self) -> u64 {
        let branches = self.branches.iter().map(|branch| branch.route.calls);
        self.hub.route.calls + branches.sum::<u64>()
    }

    /// Goes on by reading and writing alone if somebody else moves the cursor of the source. Nothing is in flight.
    fn give_up_a_shared_cursor(&mut self) -> Result<(), Failure> {
        let is_forced = self.context.options.strategy.is_some();
        if self.hub.form == Form::Pipe && self.hub.route.source.is_shared() && !is_forced {
            self.give_up_tee(Some(Cause::SharedCursor))?;
        }
        Ok(())
    }

    /// Goes on by reading and writing alone. Nothing is in flight.
    fn give_up_tee(&mut self, cause: Option<Cause>) -> Result<Flow, Failure> {
        if let Some(cause) = cause {
            self.context.attempt(Strategy::Tee).cause = Some(cause);
            if self.context.options.strategy == Some(Strategy::Tee) {
                return Err(refused(Strategy::Tee, cause));
            }
        }
        self.hub.form = Form::Buffer;
        self.hub.route.pipe = None;
        for branch in self.branches.iter_mut().filter(|branch| branch.is_live()) {
            branch.way = Strategy::Buffered;
            branch.route.pipe = None;
        }
        Ok(Flow::Continue)
    }
}

impl<'a, K: Kernel> Engine<'a> for FanOutEngine<'a, K> {
    type Kernel = K;

    fn context(&mut self) -> &mut Context<'a, K> {
        &mut self.context
    }

    fn progress(&self, blocked: Option<Side>) -> Progress {
        let records = self.records.count();
        Progress {
            // A sink that has failed since the last step may have been the last to lack something.
            bytes: self.delivered(),
            ..self.context.progress(self.in_use(), records, blocked)
        }
    }

    fn advance(&mut self) -> Result<Flow, Failure> {
        let has_waited_for_source = match self.waiting.take() {
            Some(waiting) => {
                if let Some(wait) = self.see_what_ended(waiting)? {
                    return Ok(Flow::Wait(wait));
                }
                waiting == Waiting::Source
            }
            None => false,
        };
        if !self.branches.iter().any(Branch::is_live) {
            return Ok(Flow::Ended(Ended::NoSink));
        }
        if self.is_even() {
            if !has_waited_for_source && let Some(flow) = self.begin()? {
                return Ok(flow);
            }
            // Only now: a wait may see readers go.
            self.choose_last();
        }
        let flow = self.take_step()?;
        if flow == Flow::Continue {
            self.moved()?;
        }
        Ok(flow)
    }

    fn fill_reserved(&mut self) -> Result<(), Failure> {
        self.fill_sinks()
    }

    fn finish(&mut self, outcome: Result<Ended, Failure>) -> Result<Report, Error> {
        self.conclude(outcome)
    }
}
