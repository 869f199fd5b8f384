//! Random transfers for proptest.

use proptest::prelude::*;

use super::interference::{Action, FAR, Interference, Moment, Target};
use super::objects::FUSE;
use super::scenario::{Driver, Faults, Kind, Scenario, ScenarioOptions, SinkSpec, SourceSpec};
use super::script::{Call, Injection};
use crate::options::RecordOptions;
use crate::options::{Cache, Reflink, SkipErrors, Sparse, SyncData};
use crate::sys::Errno;

/// The rare conditions that random transfers meet, besides errnos, short counts and slow peers.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "chosen one by one")]
pub(crate) struct Features {
    /// Other processes read and write through the same open file, or at the same pipe or socket.
    pub(crate) sharing: bool,
    /// Other processes append to, truncate and punch holes into the same files.
    pub(crate) sizes: bool,
    /// Pipes are in packet mode.
    pub(crate) packets: bool,
    /// Peers of stream sockets send urgent bytes.
    pub(crate) urgent: bool,
    /// Peers send pages of a file.
    pub(crate) pages: bool,
}

impl Features {
    /// All of them.
    pub(crate) const ALL: Self = Self {
        sharing: true,
        sizes: true,
        packets: true,
        urgent: true,
        pages: true,
    };

    /// Only errnos, short counts and slow peers.
    pub(crate) const NONE: Self = Self {
        sharing: false,
        sizes: false,
        packets: false,
        urgent: false,
        pages: false,
    };
}

/// Generates every kind of transfer that the simulated kernel supports.
pub(crate) fn scenarios() -> impl Strategy<Value = Scenario> {
    scenarios_with(Features::ALL, |_| {})
}

/// Generates transfers with only these features, which `adapt` can make frequent.
pub(crate) fn scenarios_with(
    features: Features,
    adapt: impl Fn(&mut Scenario),
) -> impl Strategy<Value = Scenario> {
    let ends = (source_specs(), sink_specs());
    (
        ends,
        scenario_options(),
        faults(),
        interferences(features, 1),
    )
        .prop_map(move |((source, sink), options, faults, interferences)| {
            let mut scenario = Scenario {
                source,
                sink,
                options,
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
            scenario.source.is_direct &= scenario.source.is_file();
            scenario.sink.is_direct &= scenario.sink.is_file();
            scenario.source.is_positional &= scenario.source.is_file();
            scenario.sink.is_positional &= scenario.sink.is_file() && !scenario.sink.appends;
            scenario.sink.appends &= scenario.sink.kind == Kind::File;
            scenario.source.is_packet &= features.packets;
            scenario.sink.is_packet &= features.packets;
            scenario.source.sends_pages &= features.pages;
            if !features.urgent {
                scenario.source.urgent_marks.clear();
            }
            scenario.drop_infeasible_interferences();
            scenario
        })
}

/// Generates interference at the source and at up to this many sinks.
pub(crate) fn interferences(
    features: Features,
    n_sinks: usize,
) -> impl Strategy<Value = Vec<Interference>> {
    let sizes = || prop_oneof![2 => 1..5000_usize, 1 => 1..100_000_usize];
    let places = || 0..600_000_u64;
    let read = sizes().prop_map(Action::Read);
    let write = sizes().prop_map(Action::Write);
    let far = (0..500_u64, 1..8192_usize);
    let change_source = prop_oneof![
        2 => sizes().prop_map(Action::Append),
        1 => places().prop_map(Action::Truncate),
        1 => places().prop_map(Action::Extend),
        1 => (places(), places()).prop_map(|(place, n)| Action::Punch(place, n)),
    ];
    let change_sink = prop_oneof![
        2 => far.prop_map(|(nth, n)| Action::WriteAt(FAR + nth * 8192, n)),
        1 => (0..100_000_u64).prop_map(|beyond| Action::Extend(FAR + beyond)),
        1 => places().prop_map(Action::Truncate),
    ];
    let source = Just(Target::Source(0));
    let sinks = move || (0..n_sinks).prop_map(Target::Sink);
    let shared = prop_oneof![(source, read), (sinks(), write)];
    let several = |record: BoxedStrategy<(Target, Action)>, calls: &[Call]| {
        let any = prop_oneof![3 => 0..12_usize, 1 => 0..80_usize].prop_map(|nth| (None, nth));
        // Interference between a query and the call that relies on its result, and inside calls
        // that do not lock the position.
        let calls = calls.to_vec();
        let one = (prop::sample::select(calls), 0..6_usize);
        let one = one.prop_map(|(call, nth)| (Some(call), nth));
        let moment = prop::sample::select(vec![Moment::Before, Moment::Inside]);
        let other = (moment, prop_oneof![any, one], record);
        let other = other.prop_map(|(moment, (call, nth), (target, action))| Interference {
            moment,
            call,
            nth,
            target,
            action,
        });
        prop::collection::vec(other, 1..5)
    };
    let nobody = Just(Vec::new());
    let by_sharing = several(
        shared.boxed(),
        &[
            Call::Splice,
            Call::Splice,
            Call::Sendfile,
            Call::CopyFileRange,
            Call::Seek,
        ],
    );
    let by_source = several(
        (source, change_source).boxed(),
        &[Call::Status, Call::Status, Call::Seek],
    );
    let by_sink = several(
        (sinks(), change_sink).boxed(),
        &[Call::Write, Call::PunchHole, Call::Status],
    );
    let is_drawn = move |other: &Interference| match other.action {
        Action::Read(_) | Action::Write(_) => features.sharing,
        _ => features.sizes,
    };
    let (sharing, sizes) = (u32::from(features.sharing), u32::from(features.sizes));
    let interferences = prop_oneof![
        2 => nobody,
        4 * sharing => by_sharing,
        3 * sizes => by_source,
        3 * sizes => by_sink,
    ];
    interferences.prop_map(move |others| others.into_iter().filter(is_drawn).collect())
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        6 => Just(Kind::File),
        1 => Just(Kind::Block),
        4 => Just(Kind::Pipe),
        4 => Just(Kind::Stream),
        1 => Just(Kind::Messages),
        1 => Just(Kind::Device),
    ]
}

fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![
        2 => 0..10_usize,
        2 => 4095..4098_usize,
        2 => (32 << 10) - 1..(32 << 10) + 2_usize,
        4 => 0..300_000_usize,
        3 => 200_000..600_000_usize,
    ]
}

fn chunks() -> impl Strategy<Value = Vec<usize>> {
    let chunk = prop_oneof![1..10_usize, 1..5000_usize, 1..70_000_usize, Just(32 << 10)];
    prop::collection::vec(chunk, 0..8)
}

fn delays() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0..20_u64, 0..8)
}

fn timeouts() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![6 => Just(None), 1 => (5..30_u64).prop_map(Some)]
}

pub(crate) fn source_specs() -> impl Strategy<Value = SourceSpec> {
    use Kind::{Block, Device, File};
    let magics = prop::sample::select(vec![0xef53, 0x0102_1994, 0x9123_683e, FUSE, 0]);
    let zeros = prop::collection::vec((0..150_usize, 1..40_usize), 0..4);
    let claimed_size =
        prop_oneof![6 => Just(None), 1 => (0..=120_u64).prop_map(Some), 1 => Just(Some(0))];
    let starts = prop_oneof![3 => Just(0), 1 => Just(4096), 1 => 0..100_000_u64];
    let urgent_marks = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::btree_set(0..400_000_u64, 1..4)
            .prop_map(|urgent_marks| urgent_marks.into_iter().collect()),
    ];
    let packets_from = prop_oneof![1 => Just(0), 1 => 0..200_000_u64];
    let pages = (
        prop::bool::weighted(0.3),
        packets_from,
        prop::bool::weighted(0.3),
    );
    let peers = (chunks(), delays(), timeouts(), urgent_marks, pages);
    let direct = prop::bool::weighted(0.15);
    let place = (starts, any::<bool>(), any::<bool>(), direct);
    let file = (zeros, any::<bool>(), claimed_size, magics);
    (kinds(), lengths(), place, file, peers).prop_map(
        |(
            kind,
            len,
            (start, is_positional, is_nonblocking, is_direct),
            (zeros, is_sparse, claimed_size, magic),
            peer,
        )| {
            let (chunks, delays, timeout, urgent_marks, (is_packet, packets_from, sends_pages)) =
                peer;
            let is_nonblocking = is_nonblocking && !matches!(kind, File | Block | Device);
            SourceSpec {
                kind,
                len,
                start,
                is_positional,
                is_nonblocking,
                is_direct,
                zeros,
                is_sparse,
                claimed_size,
                magic,
                is_packet: is_packet && kind == Kind::Pipe,
                packets_from,
                sends_pages,
                urgent_marks,
                chunks,
                delays,
                timeout,
            }
        },
    )
}

pub(crate) fn sink_specs() -> impl Strategy<Value = SinkSpec> {
    use Kind::{Block, Device, File};
    let starts = prop_oneof![3 => Just(0), 1 => Just(8192), 1 => 0..100_000_u64];
    let lens = prop_oneof![3 => Just(0), 1 => 0..200_000_usize];
    let flags = (
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.2),
    );
    let capacities = prop::sample::select(vec![16 << 10, 64 << 10, 208 << 10]);
    (
        kinds(),
        lens,
        starts,
        flags,
        capacities,
        chunks(),
        delays(),
        timeouts(),
    )
        .prop_map(
            |(kind, len, start, flags, capacity, chunks, delays, timeout)| {
                let (
                    is_positional,
                    is_nonblocking,
                    appends,
                    is_direct,
                    is_on_other_device,
                    is_packet,
                ) = flags;
                let is_nonblocking = is_nonblocking && !matches!(kind, File | Block | Device);
                SinkSpec {
                    kind,
                    // A block device cannot grow, so that it must be large enough.
                    len: if kind == Block { 800_000 } else { len },
                    start,
                    is_positional,
                    is_nonblocking,
                    appends,
                    is_direct,
                    is_on_other_device,
                    is_packet: is_packet && kind == Kind::Pipe,
                    capacity,
                    chunks,
                    delays,
                    timeout,
                }
            },
        )
}

pub(crate) fn scenario_options() -> impl Strategy<Value = ScenarioOptions> {
    let rarely =
        |range: std::ops::Range<u64>| prop_oneof![4 => Just(None), 1 => range.prop_map(Some)];
    let strategies = prop_oneof![
        3 => Just(None),
        1 => prop::sample::select(crate::strategy::Strategy::PAIRWISE.to_vec()).prop_map(Some),
    ];
    let reflinks = prop::sample::select(vec![
        Reflink::Auto,
        Reflink::Auto,
        Reflink::Auto,
        Reflink::Never,
        Reflink::Always,
    ]);
    let sparses = prop::sample::select(vec![
        Sparse::Keep,
        Sparse::Keep,
        Sparse::Fill,
        Sparse::Detect,
        Sparse::KeepUnwritten,
    ]);
    let caches = prop::sample::select(vec![
        (Cache::Keep, SyncData::Never),
        (Cache::Keep, SyncData::Never),
        (Cache::DropBehind, SyncData::Never),
        (Cache::DropBehind, SyncData::EachStep),
        (Cache::Keep, SyncData::EachStep),
        (Cache::Keep, SyncData::AtEnd),
        (Cache::DropBehind, SyncData::AtEnd),
    ]);
    let breaks = prop_oneof![4 => Just(None), 1 => (0..20_usize).prop_map(Some)];
    let buffer_sizes = prop_oneof![
        4 => Just(None),
        1 => prop::sample::select(vec![4096, 12_288, 64 << 10, 512 << 10]).prop_map(Some),
    ];
    let pipes = (any::<bool>(), buffer_sizes);
    let countings = prop_oneof![
        6 => Just(None),
        1 => prop::sample::select(vec![0, b'\n']).prop_map(Some),
    ];
    let switches = (any::<bool>(), pipes, prop::bool::weighted(0.15), countings);
    let ways = (strategies, reflinks, sparses, caches);
    let limits = prop_oneof![
        3 => Just(None), 1 => (0..600_000_u64).prop_map(Some), 1 => (0..10_u64).prop_map(Some),
    ];
    let max_steps = prop::sample::select(vec![1000, 70_000, u64::MAX]);
    let polls = prop::sample::select(vec![1, 2, 7, usize::MAX]);
    let drivers = prop_oneof![
        4 => Just(Driver::Library),
        1 => max_steps.prop_map(|max_step| Driver::Caller { max_step }),
        1 => polls.prop_map(|polls| Driver::Task { polls }),
    ];
    (
        limits,
        rarely(1..20),
        (rarely(1..10), drivers),
        breaks,
        switches,
        ways,
    )
        .prop_map(
            |(
                limit,
                rate,
                (tick, driver),
                stop_at,
                (stable, pipes, inspected, delimiter),
                ways,
            )| {
                let (grow_pipes, buffer_size) = pipes;
                let (strategy, reflink, sparse, (cache, sync_data)) = ways;
                ScenarioOptions {
                    limit,
                    stable,
                    strategy,
                    reflink,
                    sparse,
                    cache,
                    skip_errors: SkipErrors::Never,
                    sync_data,
                    grow_pipes,
                    buffer_size,
                    rate,
                    tick,
                    driver,
                    inspected,
                    records: RecordOptions {
                        delimiter,
                        ..RecordOptions::default()
                    },
                    stop_at,
                }
            },
        )
}

pub(crate) fn faults() -> impl Strategy<Value = Faults> {
    let injection = prop_oneof![
        4 => Just(Injection::Normal),
        2 => (1..10_usize).prop_map(Injection::Short),
        4 => (1..100_000_usize).prop_map(Injection::Short),
        3 => Just(Injection::Interrupted),
        2 => (0..10_u64).prop_map(Injection::Stalled),
        2 => Just(Injection::SpuriousWakeup),
        1 => Just(Injection::ReturnsZero),
        2 => (0..8_usize).prop_map(Injection::Refused),
    ];
    let bad = |errnos: &[Errno]| {
        let bad = (0..600_000_u64, prop::sample::select(errnos.to_vec())).prop_map(Some);
        prop_oneof![5 => Just(None), 2 => bad]
    };
    let sources = bad(&[
        Errno::IO,
        Errno::NODATA,
        Errno::INVAL,
        Errno::PERM,
        Errno::STALE,
        Errno::TIMEDOUT,
    ]);
    let sinks = bad(&[
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::IO,
        Errno::FBIG,
        Errno::PERM,
        Errno::INVAL,
    ]);
    let injections = prop_oneof![
        3 => prop::collection::vec(injection, 0..40),
        // Only a run of spurious wake-ups makes the engine change the strategy.
        1 => prop::collection::vec(Just(Injection::SpuriousWakeup), 0..40),
    ];
    let pipes = prop::sample::select(vec![
        (64 << 10, 1 << 20),
        (64 << 10, 64 << 10),
        (4096, 4096),
    ]);
    (
        injections,
        sources,
        sinks,
        prop::bool::weighted(0.1),
        (any::<bool>(), prop::bool::weighted(0.8)),
        pipes,
    )
        .prop_map(|(injections, source, sink, disk_fails, knows, pipes)| {
            let ((supports_nowait, has_proc), (pipe_capacity, pipe_max)) = (knows, pipes);
            Faults {
                injections,
                source,
                sink,
                disk_fails,
                supports_nowait,
                has_proc,
                pipe_capacity,
                pipe_max,
            }
        })
}
