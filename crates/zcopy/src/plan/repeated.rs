//! The plan for a pattern that is repeated: tee(2) from a pipe full of the pattern, or write(2).

use super::several::why_not_shared;
use super::tee::{Reasons, tee_or_buffered};
use super::{PRIVATE_PIPE_ABOVE, Plan};
use crate::error::RunError;
use crate::fd_info::{FdInfo, Kind};
use crate::options::Options;
use crate::strategy::Strategy;

/// The longest pattern that a pipe holds, in bytes: a pipe of 1 MiB has 256 slots, and each holds
/// one fragment of a socket, of at most 32 KiB.
const LONGEST: u64 = 8 << 20;

/// Plans to repeat a pattern.
///
/// # Errors
///
/// Fails if the caller requested a strategy that cannot repeat this pattern into this sink.
pub(crate) fn plan_repeated(
    pattern: &FdInfo,
    sink: &FdInfo,
    options: &Options,
) -> Result<Plan, RunError> {
    let too_long = pattern.size.is_some_and(|len| len > LONGEST);
    let reasons = Reasons {
        tee_fails: why_not_shared(pattern, sink, options).or_else(|| {
            too_long.then_some("the pattern is longer than the 8 MiB that a pipe can hold")
        }),
        buffered_is_better: why_not_worth_it(sink, options),
        tee: "one copy of the pattern fills a pipe, whose pages tee shares again and again",
        buffered: "write repeats the pattern from one buffer into every sink",
        others: "it cannot repeat a pattern",
    };
    let mut plan = Plan::new(tee_or_buffered(options, &reasons)?, pattern, &[*sink]);
    let begins_buffered = plan.strategy() == Strategy::Tee && options.strategy.is_none();
    plan.warm_up = begins_buffered.then_some(Strategy::Buffered);
    Ok(plan)
}

/// Returns why write is at least as fast as tee.
fn why_not_worth_it(sink: &FdInfo, options: &Options) -> Option<&'static str> {
    match sink.kind {
        Kind::Null => Some("/dev/null accepts any write at once, so tee saves nothing"),
        Kind::Regular | Kind::Block => {
            Some("a file copies the bytes in any case: tee measured as fast as write")
        }
        Kind::Stream => Some("tee measured 0.4 times the speed of write over a unix socket"),
        _ if options.limit.is_some_and(|n| n <= PRIVATE_PIPE_ABOVE) => {
            Some("at most 256 KiB are wanted, and filling a pipe costs more than it saves")
        }
        _ => None,
    }
}
