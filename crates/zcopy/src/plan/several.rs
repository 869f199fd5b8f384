//! The plan for several sinks: how bytes are shared, and how each sink is served.

use super::{Candidate, Plan, SMALL, Verdict, fit, remaining};
use crate::error::RunError;
use crate::fd_info::{FdInfo, Kind, Memory};
use crate::options::{Options, Reflink, Sparse};
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::Errno;

/// Plans a transfer to several sinks.
///
/// # Errors
///
/// If the caller insists on what one sink alone can have.
pub(crate) fn plan_several(
    source: &FdInfo,
    sinks: &[FdInfo],
    options: &Options,
) -> Result<Plan, RunError> {
    check(options)?;
    let mut ways: Vec<Candidate> = sinks
        .iter()
        .map(|sink| match why_written_to(source, sink, options) {
            Some(reason) => chosen(Strategy::Buffered, reason),
            None if sink.kind == Kind::Pipe => chosen(
                Strategy::Tee,
                "it is a pipe, and gets its share of the pages",
            ),
            None => chosen(
                Strategy::SplicePipe,
                "its share of the pages goes to a private pipe, and from there by splice",
            ),
        })
        .collect();
    let is_spliced = |way: &Candidate| way.strategy != Strategy::Buffered;
    let all_are_written_to = !ways.iter().any(is_spliced);
    let why_tee_cannot = why_nothing_can_be_shared(source, options)
        .or_else(|| all_are_written_to.then_some("every sink must be written to"));
    let why_not_tee = why_tee_cannot
        .or_else(|| why_nothing_is_shared(source, options))
        .or_else(|| why_sharing_is_for_nothing(sinks, &ways));
    if options.strategy == Some(Strategy::Tee)
        && let Some(reason) = why_tee_cannot
    {
        return Err(RunError::unsuitable(Strategy::Tee, reason));
    }
    let (first, second) = match (options.strategy, why_not_tee) {
        (Some(Strategy::Tee), _) => (
            chosen(Strategy::Tee, "it was asked for"),
            skipped(Strategy::Buffered, "another strategy was asked for"),
        ),
        (Some(Strategy::Buffered), _) => (
            chosen(Strategy::Buffered, "it was asked for"),
            skipped(Strategy::Tee, "another strategy was asked for"),
        ),
        (_, Some(reason)) => (
            chosen(Strategy::Buffered, reason),
            skipped(Strategy::Tee, reason),
        ),
        (_, None) => (
            chosen(
                Strategy::Tee,
                "every sink that takes a splice shares the same pages",
            ),
            Candidate {
                verdict: Verdict::Reserve,
                ..chosen(
                    Strategy::Buffered,
                    "one read, and a write for each sink, serve every source",
                )
            },
        ),
    };
    if first.strategy == Strategy::Buffered {
        for way in &mut ways {
            if is_spliced(way) {
                *way = chosen(Strategy::Buffered, first.reason);
            }
        }
    } else if ways.iter().all(is_spliced) {
        let last = |strategy| ways.iter().rposition(|way| way.strategy == strategy);
        if let Some(index) = last(Strategy::SplicePipe).or_else(|| last(Strategy::Tee)) {
            ways[index] = chosen(
                Strategy::Splice,
                "it takes the bytes themselves, when all others have their share",
            );
        }
    }
    let others = Strategy::PAIRWISE.into_iter();
    let others = others.filter(|strategy| !strategy.facts().serves_several);
    let others = others.map(|strategy| skipped(strategy, "it serves one sink alone"));
    Ok(Plan {
        candidates: [first, second].into_iter().chain(others).collect(),
        source: *source,
        sinks: sinks.to_vec(),
        ways,
        opening: None,
    })
}

/// Refuses what makes no sense for several sinks.
fn check(options: &Options) -> Result<(), RunError> {
    if options.reflink == Reflink::Always {
        let reason = "it serves one sink alone";
        return Err(RunError::unsuitable(Strategy::Reflink, reason));
    }
    if options.sparse == Sparse::Detect {
        let reason = "zeros are looked for on the way to one sink alone";
        return Err(RunError::refused(Side::Neither, Errno::INVAL, reason));
    }
    match options.strategy {
        Some(strategy) if !strategy.facts().serves_several => {
            Err(RunError::unsuitable(strategy, "it serves one sink alone"))
        }
        _ => Ok(()),
    }
}

/// What keeps the bytes of a source out of a pipe that could be shared.
fn why_nothing_can_be_shared(source: &FdInfo, options: &Options) -> Option<&'static str> {
    if options.inspected {
        return Some("the bytes are inspected on the way");
    }
    if options.records.is_wanted() {
        return Some("records are counted on the way");
    }
    match source.kind {
        Kind::Datagram => Some("one read is one message"),
        Kind::Null => Some("/dev/null cannot be spliced from"),
        _ => None,
    }
}

/// What makes it better not to share them, unless the caller insists.
fn why_nothing_is_shared(source: &FdInfo, options: &Options) -> Option<&'static str> {
    match source.kind {
        Kind::Terminal => Some("a terminal's bytes are few"),
        Kind::Other | Kind::Pattern => Some("what this device does with a splice is not known"),
        Kind::Memory(_) => Some("the device makes its bytes as they are read"),
        _ if remaining(source, options).is_some_and(|left| left <= SMALL) => {
            Some("at most 32 KiB are left, which read and write move faster")
        }
        Kind::Regular if source.size.is_none() => {
            Some("the source claims size 0, which is only true if a read says so")
        }
        _ => None,
    }
}

/// What makes sharing not worth while: if some sinks must be written to, the bytes are copied into the
/// buffer all the same, and to write them to `/dev/null` costs nothing.
fn why_sharing_is_for_nothing(sinks: &[FdInfo], ways: &[Candidate]) -> Option<&'static str> {
    let is_written_to = |way: &&Candidate| way.strategy == Strategy::Buffered;
    let n_written_to = ways.iter().filter(is_written_to).count();
    let gains = |(sink, way): (&FdInfo, &Candidate)| {
        way.strategy != Strategy::Buffered && sink.kind != Kind::Null
    };
    let nobody_gains = !sinks.iter().zip(ways).any(gains);
    match n_written_to {
        n if n == sinks.len() => Some("every sink must be written to"),
        n if n > 0 && nobody_gains => {
            Some("some sinks must be written to, and no other gains by a share")
        }
        _ => None,
    }
}

/// What makes it necessary to write to a sink.
pub(super) fn why_written_to(
    source: &FdInfo,
    sink: &FdInfo,
    options: &Options,
) -> Option<&'static str> {
    if sink.append {
        return Some("it appends, where the kernel offers no splice");
    }
    if sink.direct {
        return Some(fit::DIVIDES);
    }
    if options.stable
        && let Some(reason) = fit::why_stable_forbids(Strategy::Splice, source, sink)
    {
        return Some(reason);
    }
    match sink.kind {
        Kind::Datagram => Some("one write is one message"),
        Kind::Terminal => Some("a terminal takes writes alone"),
        Kind::Memory(Memory::Full) => Some("/dev/full takes writes alone"),
        Kind::Memory(_) | Kind::Other => Some("what this device does with a splice is not known"),
        _ => None,
    }
}

pub(super) fn chosen(strategy: Strategy, reason: &'static str) -> Candidate {
    Candidate {
        strategy,
        verdict: Verdict::Chosen,
        reason,
    }
}

pub(super) fn skipped(strategy: Strategy, reason: &'static str) -> Candidate {
    Candidate {
        strategy,
        verdict: Verdict::Skipped,
        reason,
    }
}
