//! Properties of every plan.

use proptest::prelude::*;
use proptest::strategy::Strategy as _;
use zcopy_fuzz::holds_for_all;

use super::*;
use crate::fd_info::{FileSystem, Memory};
use crate::options::{Cache, Sparse};
use crate::preflight;
use crate::strategy::Strategy;

/// A plan costs microseconds.
const CASES: u32 = 3000;

/// Descriptors and options, which need not be possible.
#[derive(Clone, Debug)]
struct Case {
    source: FdInfo,
    sinks: Vec<FdInfo>,
    options: Options,
}

fn cases() -> impl prop::strategy::Strategy<Value = Case> {
    let sinks = prop::collection::vec(fd_infos(), 1..4);
    (fd_infos(), sinks, options()).prop_map(|(source, sinks, options)| Case {
        source,
        sinks,
        options,
    })
}

fn sizes() -> impl prop::strategy::Strategy<Value = u64> {
    let around = |n: u64| n - 1..n + 2;
    prop_oneof![
        2 => 0..10_u64,
        1 => around(OFFLOAD_ABOVE),
        1 => around(FILE_OFFLOAD_ABOVE),
        1 => around(FILE_TO_PIPE_OFFLOAD_ABOVE),
        1 => around(PRIVATE_PIPE_ABOVE),
        1 => around(ONE_CALL),
        1 => around(8 << 20),
        2 => 0..1_u64 << 32,
        1 => i64::MAX as u64 - 2..i64::MAX as u64 + 2,
        1 => u64::MAX - 2..u64::MAX,
    ]
}

fn fd_infos() -> impl prop::strategy::Strategy<Value = FdInfo> {
    let kinds = prop::sample::select(vec![
        Kind::Regular,
        Kind::Regular,
        Kind::Directory,
        Kind::Pipe,
        Kind::Stream,
        Kind::Datagram,
        Kind::Block,
        Kind::Null,
        Kind::Memory(Memory::Zero),
        Kind::Memory(Memory::Full),
        Kind::Memory(Memory::Random),
        Kind::Memory(Memory::Urandom),
        Kind::Terminal,
        Kind::Other,
    ]);
    let file_systems = prop::sample::select(vec![
        FileSystem::Unknown,
        FileSystem::Ext4,
        FileSystem::Tmpfs,
        FileSystem::Btrfs,
        FileSystem::Xfs,
        FileSystem::Fuse,
        FileSystem::Image,
        FileSystem::Other,
    ]);
    let block_sizes = prop::sample::select(vec![None, Some(512), Some(4096), Some(65_536)]);
    let numbers = (
        prop::option::of(sizes()),
        sizes(),
        prop::option::of(sizes()),
        prop::option::of(sizes()),
    );
    let flags = prop::collection::vec(any::<bool>(), 7);
    let place = ((0..3_u64, 0..3_u64), file_systems, block_sizes);
    (kinds, numbers, flags, place).prop_map(|(kind, numbers, flags, place)| {
        let (size, allocated, cursor, free) = numbers;
        let (identity, file_system, block_size) = place;
        FdInfo {
            kind,
            identity,
            size,
            allocated,
            readable: flags[0],
            writable: flags[1],
            append: flags[2],
            nonblocking: flags[3],
            direct: flags[4],
            can_be_reopened: flags[5],
            cursor,
            file_system,
            free,
            block_size,
            immutable: flags[6],
        }
    })
}

fn options() -> impl prop::strategy::Strategy<Value = Options> {
    let strategies = prop::option::weighted(
        0.3,
        prop::sample::select([&Strategy::PAIRWISE[..], &[Strategy::Tee]].concat()),
    );
    let reflinks = prop::sample::select(vec![
        Reflink::Auto,
        Reflink::Auto,
        Reflink::Always,
        Reflink::Never,
    ]);
    let sparses = prop::sample::select(vec![
        Sparse::Keep,
        Sparse::Fill,
        Sparse::Detect,
        Sparse::KeepUnwritten,
    ]);
    let offsets = (
        prop::option::of(sizes()),
        prop::option::of(sizes()),
        prop::option::of(sizes()),
    );
    let buffer_sizes = prop::option::of(prop::sample::select(vec![4096_usize, 12_288, 1 << 20]));
    let flags = prop::collection::vec(any::<bool>(), 8);
    (offsets, strategies, reflinks, sparses, buffer_sizes, flags).prop_map(
        |(offsets, strategy, reflink, sparse, buffer_size, flags)| {
            let (limit, source_offset, sink_offset) = offsets;
            Options {
                limit,
                source_offset,
                sink_offset,
                strategy,
                reflink,
                sparse,
                buffer_size,
                stable: flags[0],
                cache: if flags[1] {
                    Cache::Keep
                } else {
                    Cache::DropBehind
                },
                grow_pipes: flags[2],
                stepped: flags[3],
                relayed: flags[4],
                has_prefix: flags[5],
                inspected: flags[6],
                observed: flags[7],
                ..Options::default()
            }
        },
    )
}

#[test]
fn a_plan_has_one_first_strategy_and_goes_on_until_buffered_or_refuses_what_was_requested() {
    holds_for_all(cases(), CASES, check);
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let Case {
        source,
        sinks,
        options,
    } = case;
    // They refuse, or not, and overflow nowhere.
    let _ = preflight::check(source, &sinks[0], options);
    let _ = preflight::check_filtered(source, &sinks[0]);
    match plan(source, &sinks[0], options) {
        Ok(plan) => {
            check_plan(&plan, options)?;
            check_order(&plan)?;
            let again = super::plan(source, &sinks[0], options).map(|plan| plan.to_string());
            prop_assert_eq!(again.ok(), Some(plan.to_string()), "the plan is pure");
        }
        Err(_) => prop_assert!(requested(options).is_some(), "nothing was requested"),
    }
    if let Ok(plan) = plan_several(source, sinks, options) {
        check_plan(&plan, options)?;
        prop_assert_eq!(plan.sink_candidates().len(), sinks.len());
    } else {
        let is_detected = options.sparse == Sparse::Detect;
        prop_assert!(
            requested(options).is_some() || is_detected,
            "nothing was requested"
        );
    }
    let filtered = plan_filtered(source, &sinks[0]);
    prop_assert_eq!(filtered.strategy(), Strategy::Buffered);
    let pattern = FdInfo::pattern(source.size.unwrap_or(1) as usize);
    // A repetition has no option to share blocks.
    let options = &Options {
        reflink: Reflink::Auto,
        ..*options
    };
    match plan_repeated(&pattern, &sinks[0], options) {
        Ok(plan) => check_plan(&plan, options)?,
        Err(_) => prop_assert!(requested(options).is_some(), "nothing was requested"),
    }
    Ok(())
}

/// Checks what is true of every kind of plan.
fn check_plan(plan: &Plan, options: &Options) -> Result<(), TestCaseError> {
    let chosen = plan.candidates().iter();
    let chosen = chosen.filter(|candidate| candidate.verdict() == Verdict::Chosen);
    prop_assert_eq!(chosen.count(), 1);
    prop_assert_eq!(plan.candidates()[0].verdict(), Verdict::Chosen);
    let is_explained = |candidate: &Candidate| !candidate.reason().is_empty();
    prop_assert!(plan.candidates().iter().all(is_explained));
    if let Some(requested) = requested(options) {
        prop_assert_eq!(plan.strategy(), requested);
        prop_assert_eq!(plan.warm_up(), None);
    }
    if options.stable {
        prop_assert!(!plan.shares_pages(), "stable bytes share no pages");
    }
    Ok(())
}

/// Checks the order of the strategies for one sink.
fn check_order(plan: &Plan) -> Result<(), TestCaseError> {
    let candidates = plan.candidates().iter();
    let mut all: Vec<_> = candidates.map(Candidate::strategy).collect();
    all.sort_by_key(|strategy| strategy.name());
    let mut pairwise = Strategy::PAIRWISE.to_vec();
    pairwise.sort_by_key(|strategy| strategy.name());
    prop_assert_eq!(all, pairwise, "each strategy is judged once");
    // Whatever fails, the next strategy leads to `buffered`, and no strategy is tried twice.
    let (mut strategy, mut n_tried) = (plan.strategy(), 1);
    while strategy != Strategy::Buffered {
        strategy = plan.after(strategy);
        n_tried += 1;
        prop_assert!(n_tried <= Strategy::PAIRWISE.len(), "it goes in a circle");
    }
    Ok(())
}
