//! The choice between `tee` and `buffered`, for several sinks and for patterns.

use super::{ANOTHER, Candidate, REQUESTED, Verdict};
use crate::error::RunError;
use crate::options::Options;
use crate::strategy::Strategy;

/// The reasons that the choice depends on, and those that the plan shows.
pub(super) struct Reasons {
    /// Why `tee` cannot be used, even if the caller requests it.
    pub(super) tee_fails: Option<&'static str>,
    /// Why `buffered` is at least as good.
    pub(super) buffered_is_better: Option<&'static str>,
    /// Why `tee` is chosen otherwise.
    pub(super) tee: &'static str,
    /// Why `buffered` is then the fallback.
    pub(super) buffered: &'static str,
    /// Why no other strategy can be used.
    pub(super) others: &'static str,
}

/// Returns every strategy with its verdict, the chosen one first.
///
/// # Errors
///
/// Fails if the caller requests a strategy that cannot be used.
pub(super) fn tee_or_buffered(
    options: &Options,
    reasons: &Reasons,
) -> Result<Vec<Candidate>, RunError> {
    let (tee, buffered) = (Strategy::Tee, Strategy::Buffered);
    let why_buffered = reasons.tee_fails.or(reasons.buffered_is_better);
    let (first, second) = match (options.strategy, reasons.tee_fails, why_buffered) {
        (Some(Strategy::Tee), Some(reason), _) => return Err(RunError::unsuitable(tee, reason)),
        (Some(Strategy::Tee), None, _) => (
            Candidate::chosen(tee, REQUESTED),
            Candidate::skipped(buffered, ANOTHER),
        ),
        (Some(Strategy::Buffered), ..) => (
            Candidate::chosen(buffered, REQUESTED),
            Candidate::skipped(tee, ANOTHER),
        ),
        (Some(strategy), ..) => return Err(RunError::unsuitable(strategy, reasons.others)),
        (None, _, Some(reason)) => (
            Candidate::chosen(buffered, reason),
            Candidate::skipped(tee, reason),
        ),
        (None, _, None) => (
            Candidate::chosen(tee, reasons.tee),
            Candidate::new(buffered, Verdict::Fallback, reasons.buffered),
        ),
    };
    let others = skip_pairwise(reasons.others);
    Ok([first, second].into_iter().chain(others).collect())
}

/// Skips every strategy but `tee` and `buffered`.
pub(super) fn skip_pairwise(reason: &'static str) -> impl Iterator<Item = Candidate> {
    let strategies = Strategy::PAIRWISE.into_iter();
    let pairwise = strategies.filter(|strategy| !strategy.facts().serves_several);
    pairwise.map(move |strategy| Candidate::skipped(strategy, reason))
}
