//! How random transfers are drawn.

use proptest::prelude::*;

use super::script::Twist;
use super::world::{Kind, SinkEnd, SourceEnd, Trouble, Wishes, World};
use crate::options::{Cache, Reflink, SkipErrors, Sparse, SyncData};
use crate::records::Counting;
use crate::strategy::Strategy as Route;
use crate::sys::Errno;

/// Every transfer there is, as far as the scripted kernel can act it.
pub(crate) fn worlds() -> impl Strategy<Value = World> {
    (source_ends(), sink_ends(), wishes(), troubles()).prop_map(
        |(source, sink, wishes, trouble)| {
            let mut world = World {
                source,
                sink,
                wishes,
                trouble,
            };
            if world.source.kind == Kind::Device {
                // It has no end.
                let len = world.source.len as u64;
                world.wishes.limit = Some(world.wishes.limit.map_or(len, |limit| limit.min(len)));
            }
            world.source.is_direct &= world.source.is_file();
            world.sink.is_direct &= world.sink.is_file();
            world.source.is_positional &= world.source.is_file();
            world.sink.is_positional &= world.sink.is_file() && !world.sink.appends;
            world.sink.appends &= world.sink.kind == Kind::File;
            world
        },
    )
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

pub(crate) fn source_ends() -> impl Strategy<Value = SourceEnd> {
    use Kind::{Block, Device, File};
    let magics = prop::sample::select(vec![0xef53, 0x0102_1994, 0x9123_683e, 0x9123_683e, 0]);
    let zeros = prop::collection::vec((0..150_usize, 1..40_usize), 0..4);
    let claims =
        prop_oneof![6 => Just(None), 1 => (0..=120_u64).prop_map(Some), 1 => Just(Some(0))];
    let starts = prop_oneof![3 => Just(0), 1 => Just(4096), 1 => 0..100_000_u64];
    let peers = (chunks(), delays(), timeouts());
    let direct = prop::bool::weighted(0.15);
    let place = (starts, any::<bool>(), any::<bool>(), direct);
    let file = (zeros, any::<bool>(), claims, magics);
    (kinds(), lengths(), place, file, peers).prop_map(
        |(
            kind,
            len,
            (start, is_positional, is_nonblocking, is_direct),
            (zeros, is_sparse, claims, magic),
            peer,
        )| {
            let (chunks, delays, timeout) = peer;
            let is_nonblocking = is_nonblocking && !matches!(kind, File | Block | Device);
            SourceEnd {
                kind,
                len,
                start,
                is_positional,
                is_nonblocking,
                is_direct,
                zeros,
                is_sparse,
                claims,
                magic,
                chunks,
                delays,
                timeout,
            }
        },
    )
}

pub(crate) fn sink_ends() -> impl Strategy<Value = SinkEnd> {
    use Kind::{Block, Device, File};
    let starts = prop_oneof![3 => Just(0), 1 => Just(8192), 1 => 0..100_000_u64];
    let lens = prop_oneof![3 => Just(0), 1 => 0..200_000_usize];
    let flags = (
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.3),
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
                let (is_positional, is_nonblocking, appends, is_direct, is_elsewhere) = flags;
                let is_nonblocking = is_nonblocking && !matches!(kind, File | Block | Device);
                SinkEnd {
                    kind,
                    // A block device has room enough.
                    len: if kind == Block { 800_000 } else { len },
                    start,
                    is_positional,
                    is_nonblocking,
                    appends,
                    is_direct,
                    is_elsewhere,
                    capacity,
                    chunks,
                    delays,
                    timeout,
                }
            },
        )
}

pub(crate) fn wishes() -> impl Strategy<Value = Wishes> {
    let rarely =
        |range: std::ops::Range<u64>| prop_oneof![4 => Just(None), 1 => range.prop_map(Some)];
    let strategies = prop_oneof![
        3 => Just(None),
        1 => prop::sample::select(Route::ALL.to_vec()).prop_map(Some),
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
    ]);
    let caches = prop::sample::select(vec![
        (Cache::Keep, SyncData::Never),
        (Cache::Keep, SyncData::Never),
        (Cache::DropBehind, SyncData::Never),
        (Cache::DropBehind, SyncData::EachStep),
        (Cache::Keep, SyncData::EachStep),
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
    (limits, rarely(1..20), rarely(1..10), breaks, switches, ways).prop_map(
        |(limit, rate, tick, break_at, (stable, pipes, inspected, delimiter), ways)| {
            let (grow_pipes, buffer_size) = pipes;
            let (strategy, reflink, sparse, (cache, sync_data)) = ways;
            Wishes {
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
                inspected,
                counting: Counting {
                    delimiter,
                    ..Counting::default()
                },
                break_at,
            }
        },
    )
}

pub(crate) fn troubles() -> impl Strategy<Value = Trouble> {
    let twist = prop_oneof![
        4 => Just(Twist::Straight),
        2 => (1..10_usize).prop_map(Twist::Short),
        4 => (1..100_000_usize).prop_map(Twist::Short),
        3 => Just(Twist::Interrupted),
        2 => (0..10_u64).prop_map(Twist::Stalled),
        2 => Just(Twist::FalseStart),
        1 => Just(Twist::Nothing),
        2 => (0..8_usize).prop_map(Twist::Refused),
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
    let twists = prop_oneof![
        3 => prop::collection::vec(twist, 0..40),
        // Nothing but false starts makes the engine give up on a strategy.
        1 => prop::collection::vec(Just(Twist::FalseStart), 0..40),
    ];
    let pipes = prop::sample::select(vec![
        (64 << 10, 1 << 20),
        (64 << 10, 64 << 10),
        (4096, 4096),
    ]);
    (
        twists,
        sources,
        sinks,
        prop::bool::weighted(0.1),
        (any::<bool>(), prop::bool::weighted(0.8)),
        pipes,
    )
        .prop_map(|(twists, source, sink, disk_fails, knows, pipes)| {
            let ((knows_nowait, has_proc), (pipe_capacity, pipe_max)) = (knows, pipes);
            Trouble {
                twists,
                source,
                sink,
                disk_fails,
                knows_nowait,
                has_proc,
                pipe_capacity,
                pipe_max,
            }
        })
}
