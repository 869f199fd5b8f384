//! One source, several sinks: every byte is moved once and shared with all.
//!
//! Bytes wait in the [`backlog`], a pipe, until every sink has them; each sink is a [`sink_state`]. Sinks
//! that splice are given a share by `tee(2)`, which copies nothing; when all have it, the last of them
//! takes the bytes out of the backlog. Sinks that must be written to (appending files, terminals) share
//! one buffer, and then it is the buffer that takes the bytes out. All are served in step: the next
//! bytes have their turn when every sink has accepted these.

use crate::call_error::{CallError, Cause};
use crate::context::{Context, refused};
use crate::copy_state::{CopyState, Inspector};
use crate::drop_window::DropWindow;
use crate::endpoint::Endpoint;
use crate::engine::{Callbacks, Engine, Flow, SinkPolicy};
use crate::error::{Error, RunError};
use crate::fd_info::Kind;
use crate::options::{Cache, Options};
use crate::plan::{self, Plan};
use crate::progress::Progress;
use crate::rate::RateLimiter;
use crate::records::Records;
use crate::report::{Ended, Report};
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::Kernel;
use crate::wait::Wait;
use backlog::{Backlog, Storage};
use sink_state::SinkState;
use wait::Waiting;

mod backlog;
mod finish;
mod grow;
mod round;
mod sink_state;
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
    backlog: Backlog<'a>,
    sinks: Vec<SinkState<'a>>,
    /// The sink that was detached last.
    detached_last: usize,
    source_drop_window: Option<DropWindow>,
    /// Where the bytes begin that are being shared now.
    share_start: u64,
    /// Where they end, once that is known.
    share_end: Option<u64>,
    /// Where they must end at the latest.
    bound: u64,
    /// The bytes that every sink had accepted when the rate limiter and the inspector were last told.
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
        source: Endpoint<'a>,
        sinks: Vec<Endpoint<'a>>,
        plan: &Plan,
        options: Options,
        callbacks: Callbacks<'a>,
        policy: SinkPolicy<'a>,
    ) -> Self {
        let drops = options.cache == Cache::DropBehind;
        let drop_window =
            |endpoint: &Endpoint<'_>| drops.then(|| DropWindow::of(endpoint)).flatten();
        // Whatever is read at once must fit one message, if there is a sink for messages.
        let written_to = sinks
            .iter()
            .find(|sink| sink.info.kind == Kind::Datagram)
            .unwrap_or(&sinks[0]);
        // It stands for all of them, and takes nothing itself.
        let mut written_to = written_to.clone();
        written_to.info.direct = sinks.iter().any(|sink| sink.info.direct);
        let storage = match plan.strategy() {
            Strategy::Tee => Storage::Pipe,
            _ => Storage::Buffer,
        };
        let from = source.info;
        let sink_states: Vec<_> = sinks
            .into_iter()
            .zip(plan.sinks())
            .map(|(mut sink, way)| {
                if options.strategy.is_some() {
                    sink.ignore_room();
                }
                let drop_window = drop_window(&sink);
                // What it takes comes out of the backlog: nothing is read from its copy of the source.
                let state = CopyState::new(source.clone(), sink).sized(&options);
                SinkState::new(state, way.strategy(), drop_window)
            })
            .collect();
        let total = plan::remaining(&from, &options);
        Self {
            policy,
            inspect: callbacks.inspect,
            records: Records::new(&kernel, options.records),
            source_drop_window: drop_window(&source),
            backlog: Backlog {
                storage,
                state: CopyState::new(source, written_to).sized(&options),
                head: 0,
                surplus: Vec::new(),
            },
            sinks: sink_states,
            detached_last: 0,
            share_start: 0,
            share_end: None,
            bound: 0,
            told: 0,
            may_take_turns: storage != Storage::Buffer && from.kind == Kind::Pipe,
            may_lack_writer: from.kind == Kind::Pipe && from.nonblocking,
            waiting: None,
            context: Context::new(kernel, options, plan.strategy(), callbacks.observer, total),
        }
    }

    /// Paces the transfer by the caller's rate limiter, if there is one.
    pub(crate) fn keep(&mut self, rate_limiter: Option<&'a RateLimiter>) {
        self.context.pacer.keep(&self.context.kernel, rate_limiter);
    }

    /// Before more is taken from the source: the limit, the rate, and whether there is anything. An answer means that no
    /// round begins now.
    fn begin(&mut self) -> Result<Option<Flow>, RunError> {
        let left = self.context.left(self.backlog.head);
        if left == 0 {
            return Ok(Some(Flow::Ended(Ended::Limit)));
        }
        let allowed = match self.context.pacer.allow(&self.context.kernel, left) {
            Ok(allowed) => allowed.min(BOUND.max(self.backlog.state.pipe_size as u64)),
            Err(time) => return Ok(Some(Flow::Wait(Wait::Time(time)))),
        };
        self.give_up_a_shared_cursor()?;
        self.give_lone_reader_a_pipe();
        self.bound = self.backlog.head + allowed;
        self.share_start = self.backlog.head;
        self.share_end = None;
        self.grow_pipes();
        Ok(self.wait_for_source())
    }

    /// Does everything that can be done now for every sink, one call each.
    fn take_step(&mut self) -> Result<Flow, RunError> {
        let calls = self.calls();
        let by = self.in_use();
        let flow = self.serve();
        self.credit_calls(by, self.calls() - calls);
        self.count();
        flow
    }

    /// What shares the bytes: tee, or one buffer.
    fn in_use(&self) -> Strategy {
        match self.backlog.storage {
            Storage::Buffer => Strategy::Buffered,
            Storage::Pipe => Strategy::Tee,
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

    /// Tells the page cache, the rate limiter and the inspector of what every sink has accepted.
    fn moved(&mut self) -> Result<(), RunError> {
        if let Some(drop_window) = &mut self.source_drop_window {
            drop_window.advance_read(&self.context.kernel, &self.backlog.state.source);
        }
        for index in 0..self.sinks.len() {
            let synced =
                self.sinks[index].sync_data(&self.context.kernel, self.context.options.sync_data);
            if let Err(error) = synced {
                self.sink_failed(index, error)?;
            }
            let SinkState {
                drop_window, state, ..
            } = &mut self.sinks[index];
            if let Some(drop_window) = drop_window
                && let Err(errno) = drop_window.advance_written(&self.context.kernel, &state.sink)
            {
                let error = CallError::new("sync_file_range", Side::Sink, errno);
                self.sink_failed(index, error)?;
            }
        }
        self.count();
        let delivered = self.context.bytes;
        self.context.pacer.spend(delivered - self.told);
        self.told = delivered;
        self.release();
        Ok(())
    }

    /// Lets go of what every sink that is written to has, counts its records, and shows it to whoever
    /// inspects.
    fn release(&mut self) {
        let live = || self.sinks.iter().filter(|sink| sink.is_live());
        let written = live().filter(|sink| sink.way == Strategy::Buffered);
        let written = written.map(|sink| sink.delivered).min();
        let place = match live().next() {
            Some(_) => written.unwrap_or(self.backlog.head),
            // Without a sink all that the last one lacks is to be handed back.
            None => self.delivered(),
        };
        let released = self.backlog.release(place);
        self.records.accepted(released);
        if let Some(inspect) = self.inspect.as_mut().filter(|_| !released.is_empty()) {
            inspect(released);
        }
    }

    /// What becomes of a sink that failed, and with it of the transfer.
    fn sink_failed(&mut self, index: usize, error: CallError) -> Result<(), RunError> {
        let sink = &mut self.sinks[index];
        if sink.is_detached {
            return Ok(());
        }
        if sink.ended.is_some() {
            // It has failed the transfer already, and what counts is the first failure.
            return Err(error.into());
        }
        sink.ended = Some(error.cause);
        sink.state.sink.release(&self.context.kernel);
        let report = sink.report(index);
        if !self.policy.detaches(&report) {
            return Err(error.into());
        }
        sink.is_detached = true;
        self.detached_last = index;
        // Should it be the last, what it holds may have to be handed back.
        if self.sinks.iter().any(SinkState::is_live) {
            self.sinks[index].state.pipe = None;
        }
        Ok(())
    }

    /// Whether every sink has every byte that has left the source, and nothing waits in the backlog, not
    /// even what no sink wants any more.
    fn all_caught_up(&self) -> bool {
        let head = self.backlog.head;
        let mut live = self.sinks.iter().filter(|sink| sink.is_live());
        self.backlog.state.in_flight() == 0 && live.all(|b| b.delivered == head && b.taken == head)
    }

    /// The bytes that every sink which is left has accepted; without any, those of the last.
    fn delivered(&self) -> u64 {
        let live = self.sinks.iter().filter(|sink| sink.is_live());
        let least = live.map(|sink| sink.delivered).min();
        least.unwrap_or(self.sinks[self.detached_last].delivered)
    }

    fn calls(&self) -> u64 {
        let sinks = self.sinks.iter().map(|sink| sink.state.calls);
        self.backlog.state.calls + sinks.sum::<u64>()
    }

    /// Goes on by reading and writing alone if somebody else moves the cursor of the source. Nothing is in flight.
    fn give_up_a_shared_cursor(&mut self) -> Result<(), RunError> {
        let is_requested = self.context.options.strategy.is_some();
        if self.backlog.storage == Storage::Pipe
            && self.backlog.state.source.is_shared()
            && !is_requested
        {
            self.give_up_tee(Some(Cause::SharedCursor))?;
        }
        Ok(())
    }

    /// Goes on by reading and writing alone. Nothing is in flight.
    fn give_up_tee(&mut self, cause: Option<Cause>) -> Result<Flow, RunError> {
        if let Some(cause) = cause {
            self.context.attempt(Strategy::Tee).cause = Some(cause);
            if self.context.options.strategy == Some(Strategy::Tee) {
                return Err(refused(Strategy::Tee, cause));
            }
        }
        self.backlog.storage = Storage::Buffer;
        self.backlog.state.pipe = None;
        for sink in self.sinks.iter_mut().filter(|sink| sink.is_live()) {
            sink.way = Strategy::Buffered;
            sink.state.pipe = None;
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

    fn advance(&mut self) -> Result<Flow, RunError> {
        let has_waited_for_source = match self.waiting.take() {
            Some(waiting) => {
                if let Some(wait) = self.see_what_ended(waiting)? {
                    return Ok(Flow::Wait(wait));
                }
                waiting == Waiting::Source
            }
            None => false,
        };
        if !self.sinks.iter().any(SinkState::is_live) {
            return Ok(Flow::Ended(Ended::NoSink));
        }
        if self.all_caught_up() {
            if !has_waited_for_source && let Some(flow) = self.begin()? {
                return Ok(flow);
            }
            // Only now: a wait may see readers go.
            self.choose_consumer();
        }
        let flow = self.take_step()?;
        if flow == Flow::Continue {
            self.moved()?;
        }
        Ok(flow)
    }

    fn fill_reserved(&mut self) -> Result<(), RunError> {
        self.fill_sinks()
    }

    fn finish(&mut self, outcome: Result<Ended, RunError>) -> Result<Report, Error> {
        self.conclude(outcome)
    }
}
