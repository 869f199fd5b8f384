//! The plan for several sinks: how bytes are shared, and how each sink is served.

use super::tee::{Reasons, tee_or_buffered};
use super::{Candidate, Plan, SMALL, fit, remaining};
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
    let others = "it serves one sink alone";
    if options.reflink == Reflink::Always {
        return Err(RunError::unsuitable(Strategy::Reflink, others));
    }
    if options.sparse == Sparse::Detect {
        let reason = "zeros are looked for on the way to one sink alone";
        return Err(RunError::refused(Side::Neither, Errno::INVAL, reason));
    }
    let mut per_sink: Vec<_> = sinks
        .iter()
        .map(|sink| match why_written_to(source, sink, options) {
            Some(reason) => Candidate::chosen(Strategy::Buffered, reason),
            None if sink.kind == Kind::Pipe => Candidate::chosen(
                Strategy::Tee,
                "it is a pipe, and gets its share of the pages",
            ),
            None => Candidate::chosen(
                Strategy::SplicePipe,
                "its share of the pages goes to a private pipe, and from there by splice",
            ),
        })
        .collect();
    let is_written_to = |sink: &Candidate| sink.strategy == Strategy::Buffered;
    let (any_written_to, all_written_to) = (
        per_sink.iter().any(is_written_to),
        per_sink.iter().all(is_written_to),
    );
    let gains =
        |(info, sink): (&FdInfo, &Candidate)| !is_written_to(sink) && info.kind != Kind::Null;
    let sharing_is_for_nothing = any_written_to && !sinks.iter().zip(&per_sink).any(gains);
    let reasons = Reasons {
        tee_fails: why_nothing_can_be_shared(source, options)
            .or_else(|| all_written_to.then_some("every sink must be written to")),
        buffered_is_better: why_nothing_is_shared(source, options).or_else(|| {
            let reason = "some sinks must be written to, and no other gains by a share";
            sharing_is_for_nothing.then_some(reason)
        }),
        tee: "every sink that takes a splice shares the same pages",
        buffered: "one read, and a write for each sink, serve every source",
        others,
    };
    let candidates = tee_or_buffered(options, &reasons)?;
    if is_written_to(&candidates[0]) {
        for sink in per_sink.iter_mut().filter(|sink| !is_written_to(sink)) {
            *sink = Candidate::chosen(Strategy::Buffered, candidates[0].reason);
        }
    } else if !any_written_to {
        let last = |strategy| per_sink.iter().rposition(|sink| sink.strategy == strategy);
        if let Some(index) = last(Strategy::SplicePipe).or_else(|| last(Strategy::Tee)) {
            per_sink[index] = Candidate::chosen(
                Strategy::Splice,
                "it takes the bytes themselves, when all others have their share",
            );
        }
    }
    Ok(Plan {
        per_sink,
        ..Plan::new(candidates, source, sinks)
    })
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
    let forbidden = fit::why_stable_forbids(Strategy::Splice, source, sink, options);
    if forbidden.is_some() {
        return forbidden;
    }
    match sink.kind {
        Kind::Datagram => Some("one write is one message"),
        Kind::Terminal => Some("a terminal takes writes alone"),
        Kind::Memory(Memory::Full) => Some("/dev/full takes writes alone"),
        Kind::Memory(_) | Kind::Other => Some("what this device does with a splice is not known"),
        _ => None,
    }
}
