//! The plan for a pattern that is repeated: by tee(2) from a pipe that is full of it, or by write(2).

use super::several::{chosen, skipped, why_written_to};
use super::{Candidate, Plan, SHORT, Verdict};
use crate::error::RunError;
use crate::fd_info::{FdInfo, Kind};
use crate::options::Options;
use crate::strategy::Strategy;

/// 256 slots, each of which holds one fragment of a socket, 32 KiB at most.
const LONGEST: u64 = 8 << 20;

/// Plans to repeat a pattern.
///
/// # Errors
///
/// If the caller insists on what cannot be.
pub(crate) fn plan_repeated(
    pattern: &FdInfo,
    sink: &FdInfo,
    options: &Options,
) -> Result<Plan, RunError> {
    let (tee, buffered) = (Strategy::Tee, Strategy::Buffered);
    let too_long = pattern.size.is_some_and(|len| len > LONGEST);
    let impossible = why_written_to(pattern, sink, options)
        .or_else(|| too_long.then_some("no pipe holds the pattern"));
    let other = "another strategy was asked for";
    let (first, second) = match options.strategy {
        Some(Strategy::Tee) => match impossible {
            Some(reason) => return Err(RunError::unsuitable(tee, reason)),
            None => (chosen(tee, "it was asked for"), skipped(buffered, other)),
        },
        Some(Strategy::Buffered) => (chosen(buffered, "it was asked for"), skipped(tee, other)),
        Some(strategy) => {
            return Err(RunError::unsuitable(strategy, "a pattern is repeated"));
        }
        None => match impossible.or_else(|| why_not_worth_it(sink, options)) {
            Some(reason) => (
                chosen(
                    buffered,
                    "one buffer, full of the pattern, serves every sink",
                ),
                skipped(tee, reason),
            ),
            None => (
                chosen(
                    tee,
                    "one copy of the pattern fills a pipe, and is shared for ever",
                ),
                Candidate {
                    verdict: Verdict::Reserve,
                    ..chosen(
                        buffered,
                        "one buffer, full of the pattern, serves every sink",
                    )
                },
            ),
        },
    };
    let is_requested = options.strategy.is_some();
    let opening = (first.strategy == tee && !is_requested).then_some(buffered);
    let others = Strategy::PAIRWISE.into_iter();
    let others = others.filter(|strategy| !strategy.facts().serves_several);
    let others = others.map(|strategy| skipped(strategy, "a pattern is repeated"));
    Ok(Plan {
        candidates: [first, second].into_iter().chain(others).collect(),
        source: *pattern,
        sinks: vec![*sink],
        ways: Vec::new(),
        opening,
    })
}

/// Where a write is as fast or faster.
fn why_not_worth_it(sink: &FdInfo, options: &Options) -> Option<&'static str> {
    match sink.kind {
        Kind::Null => Some("/dev/null takes any write at once"),
        Kind::Regular | Kind::Block => {
            Some("the file copies the bytes in any case: measured level with write")
        }
        Kind::Stream => Some("measured 0.4 times write over a unix socket"),
        _ if options.limit.is_some_and(|limit| limit <= SHORT) => {
            Some("up to 256 KiB, filling a pipe costs more than it saves")
        }
        _ => None,
    }
}
