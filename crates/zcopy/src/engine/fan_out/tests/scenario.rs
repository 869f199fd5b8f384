//! The description of a random fan-out: its descriptors, its options and its faults.

use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::Strategy as _;

use crate::options::Options;
use crate::sim::SimKernel;
use crate::sim::arbitrary::{
    Features, faults, interferences, scenario_options, sink_specs, source_specs,
};
use crate::sim::feasible::retain_feasible;
use crate::sim::interference::Interference;
use crate::sim::objects::BLOCK;
use crate::sim::scenario::{Faults, Kind, ScenarioOptions, SinkSpec, SourceSpec};
use crate::sim::script::{Injection, Script};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};

/// One random fan-out.
#[derive(Clone, Debug)]
pub(super) struct Several {
    pub(super) source: SourceSpec,
    pub(super) sinks: Vec<SinkCase>,
    /// The options, except those of holes, `O_DIRECT` and strategies.
    pub(super) options: ScenarioOptions,
    pub(super) strategy: Option<Strategy>,
    pub(super) watches: bool,
    pub(super) faults: Faults,
    /// The calls of other processes.
    pub(super) interferences: Vec<Interference>,
}

/// A sink of a fan-out.
#[derive(Clone, Debug)]
pub(super) struct SinkCase {
    pub(super) end: SinkSpec,
    /// The number of bytes after which the sink fails, and the errno.
    pub(super) fault: Option<(u64, Errno)>,
    /// Whether it is detached when it fails.
    pub(super) detaches: bool,
}

/// Generates every kind of fan-out that the simulated kernel supports.
pub(super) fn scenarios() -> impl prop::strategy::Strategy<Value = Several> {
    scenarios_with(|_| {})
}

/// The same, but each one is changed by `adapt`.
pub(super) fn scenarios_with(
    adapt: fn(&mut Several),
) -> impl prop::strategy::Strategy<Value = Several> {
    let strategies = prop_oneof![
        4 => Just(None),
        1 => Just(Some(Strategy::Tee)),
        1 => Just(Some(Strategy::Buffered)),
    ];
    let sinks = prop::collection::vec(sink_cases(), 1..6);
    let switches = (strategies, prop::bool::weighted(0.2));
    let faults = (faults(), interferences(Features::ALL, 6));
    (source_specs(), sinks, scenario_options(), switches, faults).prop_map(
        move |(source, sinks, options, (strategy, watches), (faults, interferences))| {
            let mut scenario = Several {
                source,
                sinks,
                options,
                strategy,
                watches,
                faults,
                interferences,
            };
            adapt(&mut scenario);
            if scenario.source.kind == Kind::Device {
                // The device has no end.
                let len = scenario.source.len as u64;
                scenario.options.limit =
                    Some(scenario.options.limit.map_or(len, |limit| limit.min(len)));
            }
            scenario.source.is_positional &= scenario.source.is_file();
            for (index, sink) in scenario.sinks.iter_mut().enumerate() {
                sink.end.is_positional &= index == 0 && sink.end.is_file() && !sink.end.appends;
                sink.end.appends &= sink.end.kind == Kind::File;
                sink.end.is_positional &= !sink.end.appends;
            }
            let sinks: Vec<_> = scenario.sinks.iter().map(|sink| &sink.end).collect();
            let may_sleep = scenario.may_sleep();
            retain_feasible(
                &mut scenario.interferences,
                &scenario.source,
                &sinks,
                &scenario.faults,
                may_sleep,
            );
            scenario
        },
    )
}

fn sink_cases() -> impl prop::strategy::Strategy<Value = SinkCase> {
    let errnos = vec![
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::IO,
        Errno::FBIG,
        Errno::PERM,
        Errno::INVAL,
    ];
    // At once, in the middle, and at the end or never.
    let places = prop_oneof![1 => Just(0), 2 => 1..300_000_u64, 1 => 300_000..600_000_u64];
    let fault = (places, prop::sample::select(errnos)).prop_map(Some);
    let faults = prop_oneof![4 => Just(None), 1 => fault];
    (sink_specs(), faults, prop::bool::weighted(0.7)).prop_map(|(end, fault, detaches)| SinkCase {
        end,
        fault,
        detaches,
    })
}

impl Several {
    /// Returns a simulated kernel with this scenario, and descriptors of the source and the sinks.
    pub(super) fn kernel(&self) -> (SimKernel, OwnedFd, Vec<OwnedFd>) {
        let kernel = SimKernel::default();
        let mode = |is_nonblocking: bool| {
            if is_nonblocking {
                OFlags::NONBLOCK
            } else {
                OFlags::empty()
            }
        };
        let object = self.source.object(&self.faults);
        let packets = |is_packet| {
            if is_packet {
                OFlags::DIRECT
            } else {
                OFlags::empty()
            }
        };
        let flags = mode(self.source.is_nonblocking)
            | packets(self.source.is_packet && self.source.kind == Kind::Pipe);
        let source = kernel.source(object, flags);
        self.source.send_pages(&kernel, &source);
        // A cursor that the transfer must not use is set to 77.
        let start = if self.source.is_positional {
            77
        } else {
            self.source_start()
        };
        kernel.set_cursor(&source, start);
        let sinks = self.sinks.iter().map(|SinkCase { end, fault, .. }| {
            let faults = Faults {
                sink: *fault,
                ..self.faults.clone()
            };
            let append = if end.appends {
                OFlags::APPEND
            } else {
                OFlags::empty()
            };
            let object = end.object(&self.source, &faults);
            let sink = kernel.sink(
                object,
                mode(end.is_nonblocking)
                    | append
                    | packets(end.is_packet && end.kind == Kind::Pipe),
            );
            kernel.set_cursor(&sink, if end.is_positional { 77 } else { end.start });
            sink
        });
        let sinks = sinks.collect();
        let mut state = kernel.state.borrow_mut();
        state.script = Script::of(&self.faults.injections);
        state.may_sleep = self.may_sleep();
        state.driver = self.options.driver;
        state.supports_nowait = self.faults.supports_nowait;
        state.pipe_capacity = self.faults.pipe_capacity;
        state.pipe_max = self.faults.pipe_max;
        state.disk_fails = self.faults.disk_fails;
        state.max_calls = self.max_calls();
        state.interferences.clone_from(&self.interferences);
        drop(state);
        (kernel, source, sinks)
    }

    /// Returns whether a call may sleep.
    fn may_sleep(&self) -> bool {
        let is_session = self.options.driver.is_session();
        self.options.tick.is_none() && !self.watches && !is_session
    }

    fn source_start(&self) -> u64 {
        if self.source.is_file() {
            self.source.start
        } else {
            0
        }
    }

    /// Returns the rate limit, in bytes a second. The whole source takes at most one second.
    pub(super) fn rate(&self) -> Option<u64> {
        let len = (self.source.most_len(&self.interferences) as u64).max(1);
        self.options.rate.map(|times| times * len)
    }

    /// A bound that any spin breaks: a few calls for each sink and each page, injection and chunk,
    /// and for each tick and quantum of the rate.
    fn max_calls(&self) -> usize {
        let sinks = || self.sinks.iter().map(|sink| &sink.end);
        let n_pages = self.source.len / self.options.driver.max_step().min(BLOCK as u64) as usize;
        let n_chunks = sinks().map(|end| end.chunks.len()).sum::<usize>();
        let n_chunks = self.source.chunks.len() + n_chunks;
        let stalls = self
            .faults
            .injections
            .iter()
            .map(|injection| match injection {
                Injection::Stalled(millis) => *millis,
                _ => 1,
            });
        let delays = sinks().flat_map(|end| &end.delays);
        let delays = self.source.delays.iter().chain(delays);
        let waits = stalls.chain(delays.copied()).sum::<u64>() as usize;
        let rate_waits = if self.options.rate.is_some() { 1100 } else { 0 };
        let n_ticks = match self.options.tick {
            Some(_) => waits + rate_waits,
            None => 0,
        };
        let n_marks = self.source.urgent_marks.len();
        let n_others = 150 * self.interferences.len();
        let n_turns = n_pages + n_chunks + n_marks + n_others + self.faults.injections.len();
        200 + 8 * (self.sinks.len() + 1) * n_turns + n_ticks + 2 * rate_waits
    }

    pub(super) fn options(&self) -> Options {
        let options = &self.options;
        let first = &self.sinks[0].end;
        Options {
            limit: options.limit,
            source_offset: self.source.is_positional.then_some(self.source.start),
            sink_offset: first.is_positional.then_some(first.start),
            stable: options.stable,
            strategy: self.strategy,
            cache: options.cache,
            sync_data: options.sync_data,
            grow_pipes: options.grow_pipes,
            buffer_size: options.buffer_size,
            rate_limit: self.rate().and_then(NonZeroU64::new),
            tick: options.tick.map(Duration::from_millis),
            watch_readers: self.watches,
            stepped: self.options.driver.is_session(),
            records: options.records,
            inspected: options.inspected,
            observed: true,
            ..Options::default()
        }
    }
}
