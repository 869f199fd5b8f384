//! The plan for several sinks: whether they share pages, and how each sink is served.

use super::tee::{Reasons, tee_or_buffered};
use super::{Candidate, OFFLOAD_ABOVE, Plan, fit, remaining};
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
/// Fails if the caller requested a strategy or an option that serves only one sink.
pub(crate) fn plan_several(
    source: &FdInfo,
    sinks: &[FdInfo],
    options: &Options,
) -> Result<Plan, RunError> {
    let others = "it serves only one sink";
    if options.reflink == Reflink::Always {
        return Err(RunError::unsuitable(Strategy::Reflink, others));
    }
    if options.sparse == Sparse::Detect {
        let reason = "Sparse::Detect serves one sink only";
        return Err(RunError::refused(Side::Neither, Errno::INVAL, reason));
    }
    let mut sink_candidates: Vec<_> = sinks
        .iter()
        .map(|sink| match why_not_shared(source, sink, options) {
            Some(reason) => Candidate::chosen(Strategy::Buffered, reason),
            None if sink.kind == Kind::Pipe => Candidate::chosen(
                Strategy::Tee,
                "it is a pipe, with which tee shares the pages",
            ),
            None => Candidate::chosen(
                Strategy::SplicePipe,
                "tee shares the pages with a private pipe, and splice moves them from there",
            ),
        })
        .collect();
    let is_written_to = |sink: &Candidate| sink.strategy == Strategy::Buffered;
    let all_written_to = sink_candidates.iter().all(is_written_to);
    let any_written_to = sink_candidates.iter().any(is_written_to);
    // Bytes for a sink that must be written to are in the buffer anyway, and writing them to
    // `/dev/null` costs nothing.
    let gains =
        |(info, sink): (&FdInfo, &Candidate)| !is_written_to(sink) && info.kind != Kind::Null;
    let sharing_is_for_nothing = any_written_to && !sinks.iter().zip(&sink_candidates).any(gains);
    let reasons = Reasons {
        tee_fails: why_tee_fails(source, options).or_else(|| {
            all_written_to
                .then_some("no sink can receive shared pages, so all of them are written to")
        }),
        buffered_is_better: why_tee_gains_nothing(source, options).or_else(|| {
            sharing_is_for_nothing.then_some(
                "some sinks must be written to, and the others are /dev/null, \
                 where sharing saves nothing",
            )
        }),
        tee: "every sink that accepts a splice shares the same pages",
        buffered: "one read, and one write for each sink, serve every source",
        others,
    };
    let candidates = tee_or_buffered(options, &reasons)?;
    if is_written_to(&candidates[0]) {
        for sink in sink_candidates
            .iter_mut()
            .filter(|sink| !is_written_to(sink))
        {
            *sink = Candidate::chosen(Strategy::Buffered, candidates[0].reason);
        }
    } else if !any_written_to {
        let last = |strategy| {
            sink_candidates
                .iter()
                .rposition(|sink| sink.strategy == strategy)
        };
        if let Some(index) = last(Strategy::SplicePipe).or_else(|| last(Strategy::Tee)) {
            sink_candidates[index] = Candidate::chosen(
                Strategy::Splice,
                "it receives the bytes last, by a splice that removes them from the shared pipe",
            );
        }
    }
    Ok(Plan {
        sink_candidates,
        ..Plan::new(candidates, source, sinks)
    })
}

/// Returns why the bytes of a source cannot be shared.
fn why_tee_fails(source: &FdInfo, options: &Options) -> Option<&'static str> {
    fit::why_user_space(options).or(match source.kind {
        Kind::Datagram => Some("only read keeps the messages of a datagram socket apart"),
        Kind::Null => Some("/dev/null is always empty, and only read works on it"),
        _ => None,
    })
}

/// Returns why it is better not to share the bytes of a source, unless the caller requests it.
fn why_tee_gains_nothing(source: &FdInfo, options: &Options) -> Option<&'static str> {
    match source.kind {
        Kind::Terminal => Some(fit::TERMINAL),
        Kind::Other => Some(fit::UNKNOWN_DEVICE),
        Kind::Memory(_) => Some(fit::GENERATED),
        _ if remaining(source, options).is_some_and(|left| left <= OFFLOAD_ABOVE) => Some(fit::FEW),
        Kind::Regular if source.size.is_none() => Some(fit::CLAIMS_EMPTY),
        _ => None,
    }
}

/// Returns why bytes cannot be shared with a sink, so that it must be written to.
pub(super) fn why_not_shared(
    source: &FdInfo,
    sink: &FdInfo,
    options: &Options,
) -> Option<&'static str> {
    if sink.append {
        return Some(fit::APPENDS);
    }
    if sink.direct {
        return Some(fit::DIVIDES_DIRECT_BLOCKS);
    }
    fit::why_stable_forbids(Strategy::Splice, source, sink, options).or(match sink.kind {
        Kind::Datagram => Some("only write keeps the messages of a datagram socket apart"),
        Kind::Terminal => Some(fit::TERMINAL),
        Kind::Memory(Memory::Full) => Some(fit::DEV_FULL),
        Kind::Memory(_) | Kind::Other => Some(fit::UNKNOWN_DEVICE),
        _ => None,
    })
}
