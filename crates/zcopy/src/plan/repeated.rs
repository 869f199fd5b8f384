//! The plan for a pattern that is repeated: by tee(2) from a pipe that is full of it, or by write(2).

use super::several::why_written_to;
use super::tee::{Reasons, tee_or_buffered};
use super::{Plan, SHORT};
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
    let too_long = pattern.size.is_some_and(|len| len > LONGEST);
    let reasons = Reasons {
        tee_fails: why_written_to(pattern, sink, options)
            .or_else(|| too_long.then_some("no pipe holds the pattern")),
        buffered_is_better: why_not_worth_it(sink, options),
        tee: "one copy of the pattern fills a pipe, and is shared for ever",
        buffered: "one buffer, full of the pattern, serves every sink",
        others: "a pattern is repeated",
    };
    let mut plan = Plan::new(tee_or_buffered(options, &reasons)?, pattern, &[*sink]);
    let begins_buffered = plan.strategy() == Strategy::Tee && options.strategy.is_none();
    plan.opening = begins_buffered.then_some(Strategy::Buffered);
    Ok(plan)
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
