//! The description of a random transfer: its two descriptors, its options and its faults.

use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::feasible::retain_feasible;
use super::interference::Interference;
use super::kernel::SimKernel;
use super::objects::{BLOCK, Object};
use super::script::{Injection, Script};
use crate::options::RecordOptions;
use crate::options::{Cache, Options, Reflink, SkipErrors, Sparse, SyncData};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};

mod ends;

pub(crate) use ends::{Kind, SinkSpec, SourceSpec};

/// One random transfer.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) source: SourceSpec,
    pub(crate) sink: SinkSpec,
    pub(crate) options: ScenarioOptions,
    pub(crate) faults: Faults,
    /// The calls of other processes.
    pub(crate) interferences: Vec<Interference>,
}

#[derive(Clone, Debug)]
pub(crate) struct ScenarioOptions {
    pub(crate) limit: Option<u64>,
    pub(crate) stable: bool,
    pub(crate) strategy: Option<Strategy>,
    pub(crate) reflink: Reflink,
    pub(crate) sparse: Sparse,
    pub(crate) cache: Cache,
    pub(crate) skip_errors: SkipErrors,
    pub(crate) sync_data: SyncData,
    pub(crate) grow_pipes: bool,
    pub(crate) buffer_size: Option<usize>,
    /// The rate limit, in multiples of the greatest length of the source a second.
    pub(crate) rate: Option<u64>,
    pub(crate) tick: Option<u64>,
    pub(crate) driver: Driver,
    pub(crate) inspected: bool,
    pub(crate) records: RecordOptions,
    /// The number of calls after which the observer stops the transfer.
    pub(crate) stop_at: Option<usize>,
}

/// Who takes the steps of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Driver {
    /// `run`, in the blocking driver.
    #[default]
    Library,
    /// The caller of a session, each of at most this many bytes.
    Caller { max_step: u64 },
    /// A task of tokio, whose future is dropped each time that it has been polled this many times.
    /// Without the feature `tokio`, the caller of a session takes its place.
    Task { polls: usize },
}

impl Driver {
    /// Returns whether a session takes the steps. Then no call may sleep.
    pub(crate) fn is_session(self) -> bool {
        self != Self::Library
    }

    pub(crate) fn max_step(self) -> u64 {
        match self {
            Self::Caller { max_step } => max_step,
            Self::Library | Self::Task { .. } => u64::MAX,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) injections: Vec<Injection>,
    /// The distance from the start of the transfer at which the source fails, and the errno.
    pub(crate) source: Option<(u64, Errno)>,
    pub(crate) sink: Option<(u64, Errno)>,
    pub(crate) disk_fails: bool,
    pub(crate) supports_nowait: bool,
    /// Whether `/proc` is mounted, by which files are reopened. A file with `O_DIRECT` can always
    /// be reopened.
    pub(crate) has_proc: bool,
    pub(crate) pipe_capacity: usize,
    pub(crate) pipe_max: usize,
}

impl ScenarioOptions {
    /// Returns whether a call may sleep.
    fn may_sleep(&self) -> bool {
        let has_rate = self.rate.is_some() || self.records.rate.is_some();
        self.tick.is_none() && !has_rate && !self.driver.is_session()
    }
}

impl Scenario {
    /// Returns a transfer of `len` bytes without options, faults and interference, which a test of
    /// one scenario changes.
    pub(crate) fn plain(source: Kind, len: usize, sink: Kind) -> Self {
        Self {
            source: SourceSpec {
                kind: source,
                len,
                start: 0,
                is_positional: false,
                is_nonblocking: false,
                is_direct: false,
                zeros: Vec::new(),
                is_sparse: false,
                claimed_size: None,
                magic: 0xef53,
                is_packet: false,
                packets_from: 0,
                sends_pages: false,
                urgent_marks: Vec::new(),
                chunks: Vec::new(),
                delays: Vec::new(),
                timeout: None,
            },
            sink: SinkSpec {
                kind: sink,
                // A block device cannot grow, so that it must be large enough.
                len: if sink == Kind::Block { 800_000 } else { 0 },
                start: 0,
                is_positional: false,
                is_nonblocking: false,
                appends: false,
                is_direct: false,
                is_on_other_device: false,
                is_packet: false,
                capacity: 64 << 10,
                chunks: Vec::new(),
                delays: Vec::new(),
                timeout: None,
            },
            options: ScenarioOptions {
                limit: None,
                stable: false,
                strategy: None,
                reflink: Reflink::Auto,
                sparse: Sparse::Keep,
                cache: Cache::Keep,
                skip_errors: SkipErrors::Never,
                sync_data: SyncData::Never,
                grow_pipes: false,
                buffer_size: None,
                rate: None,
                tick: None,
                inspected: false,
                records: RecordOptions::default(),
                stop_at: None,
                driver: Driver::Library,
            },
            faults: Faults {
                injections: Vec::new(),
                source: None,
                sink: None,
                disk_fails: false,
                supports_nowait: false,
                has_proc: false,
                pipe_capacity: 64 << 10,
                pipe_max: 1 << 20,
            },
            interferences: Vec::new(),
        }
    }

    /// Returns a simulated kernel with this scenario, and descriptors of the source and the sink.
    pub(crate) fn kernel(&self) -> (SimKernel, OwnedFd, OwnedFd) {
        let kernel = SimKernel::default();
        let flags = |is_nonblocking, is_direct, appends| {
            let mut flags = OFlags::empty();
            flags.set(OFlags::NONBLOCK, is_nonblocking);
            flags.set(OFlags::DIRECT, is_direct);
            flags.set(OFlags::APPEND, appends);
            flags
        };
        let (from, to) = (&self.source, &self.sink);
        let source = kernel.source(
            from.object(&self.faults),
            flags(
                from.is_nonblocking,
                from.is_direct || from.is_packet && from.kind == Kind::Pipe,
                false,
            ),
        );
        let mut object = to.object(from, &self.faults);
        if let Object::Channel(pipe) = &mut object {
            // A splice that the caller requests passes packets on.
            pipe.expects_packets |= self.options.strategy == Some(Strategy::Splice);
        }
        let sink = kernel.sink(
            object,
            flags(
                to.is_nonblocking,
                to.is_direct || to.is_packet && to.kind == Kind::Pipe,
                to.appends,
            ),
        );
        from.send_pages(&kernel, &source);
        // A cursor that the transfer must not use is set to 77.
        kernel.set_cursor(
            &source,
            if self.source.is_positional {
                77
            } else {
                self.source_start()
            },
        );
        kernel.set_cursor(
            &sink,
            if self.sink.is_positional {
                77
            } else {
                self.sink.start
            },
        );
        let mut state = kernel.state.borrow_mut();
        state.script = Script::of(&self.faults.injections);
        state.has_proc = self.faults.has_proc || self.source.is_direct || self.sink.is_direct;
        state.may_sleep = self.options.may_sleep();
        state.driver = self.options.driver;
        state.supports_nowait = self.faults.supports_nowait;
        state.pipe_capacity = self.faults.pipe_capacity;
        state.pipe_max = self.faults.pipe_max;
        state.disk_fails = self.faults.disk_fails;
        state.max_calls = self.max_calls();
        state.interferences.clone_from(&self.interferences);
        drop(state);
        (kernel, source, sink)
    }

    pub(crate) fn source_start(&self) -> u64 {
        if self.source.is_file() {
            self.source.start
        } else {
            0
        }
    }

    /// Removes interference that is impossible here.
    pub(crate) fn drop_infeasible_interferences(&mut self) {
        let may_sleep = self.options.may_sleep();
        let sinks = [&self.sink];
        retain_feasible(
            &mut self.interferences,
            &self.source,
            &sinks,
            &self.faults,
            may_sleep,
        );
        if self
            .interferences
            .iter()
            .any(Interference::changes_sink_size)
        {
            // Only the size of the sink shows that a clone was truncated although it succeeded.
            self.source.magic = 0xef53;
        }
    }

    /// Returns the bytes from the start of the source.
    pub(crate) fn data(&self) -> Vec<u8> {
        let mut bytes = self.source.bytes();
        bytes.split_off((self.source_start() as usize).min(bytes.len()))
    }

    /// Returns the rate limit, in bytes a second. The whole source takes at most one second.
    pub(crate) fn rate(&self) -> Option<u64> {
        let len = (self.source.most_len(&self.interferences) as u64).max(1);
        self.options.rate.map(|times| times * len)
    }

    /// Returns a bound on the number of calls that only a busy loop exceeds: a few for each page,
    /// injection, write of a peer, tick, and quantum of the rate.
    fn max_calls(&self) -> usize {
        let piece = self.options.driver.max_step().min(BLOCK as u64) as usize;
        let n_pages = self.source.len / piece;
        let n_chunks = self.source.chunks.len() + self.sink.chunks.len();
        let stalls = self
            .faults
            .injections
            .iter()
            .map(|injection| match injection {
                Injection::Stalled(millis) => *millis,
                _ => 1,
            });
        let delays = self.source.delays.iter().chain(&self.sink.delays);
        let waits = stalls.chain(delays.copied()).sum::<u64>() as usize;
        let is_rate_limited = [
            self.options.rate.is_some(),
            self.options.records.rate.is_some(),
        ];
        let rate_waits = 1100 * is_rate_limited.into_iter().filter(|is| *is).count();
        let n_ticks = if self.options.tick.is_some() {
            waits + rate_waits
        } else {
            0
        };
        // Each may add as many bytes as there were, which other calls may move.
        let n_others = self.interferences.len() * (100 + 8 * 150);
        let n_turns =
            n_pages + n_chunks + self.source.urgent_marks.len() + self.faults.injections.len();
        // A transfer that waits for its rate polls its ends at each tick.
        100 + 8 * n_turns + n_others + 3 * n_ticks + 2 * rate_waits
    }

    pub(crate) fn options(&self) -> Options {
        let options = &self.options;
        Options {
            limit: options.limit,
            source_offset: self.source.is_positional.then_some(self.source.start),
            sink_offset: self.sink.is_positional.then_some(self.sink.start),
            stable: options.stable,
            strategy: options.strategy,
            reflink: options.reflink,
            sparse: options.sparse,
            cache: options.cache,
            skip_errors: options.skip_errors,
            sync_data: options.sync_data,
            grow_pipes: options.grow_pipes,
            buffer_size: options.buffer_size,
            rate_limit: self.rate().and_then(NonZeroU64::new),
            tick: options.tick.map(Duration::from_millis),
            stepped: options.driver.is_session(),
            records: options.records,
            watch_readers: false,
            inspected: options.inspected,
            observed: true,
            ..Options::default()
        }
    }
}
