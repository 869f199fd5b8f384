//! Before the first step: both descriptors are looked at, and the plan is made.

use std::os::fd::BorrowedFd;

use crate::endpoint::{Endpoint, Kind};
use crate::error::Failure;
use crate::fault::Side;
use crate::options::{Cache, Options, Sparse};
use crate::plan::{self, Plan};
use crate::preflight;
use crate::sys::Kernel;

/// Classifies both descriptors, refuses what cannot work, and plans. Touches nothing.
pub(crate) fn prepare<K: Kernel>(
    kernel: &K,
    (source, sink): (BorrowedFd<'_>, BorrowedFd<'_>),
    options: &Options,
) -> Result<(Endpoint, Endpoint, Plan), Failure> {
    let examined = |side, found: Result<_, _>| {
        found.map_err(|errno| Failure::refused(side, errno, "it cannot be examined"))
    };
    let mut from = examined(Side::Source, Endpoint::of(kernel, source))?;
    let mut to = examined(Side::Sink, Endpoint::of(kernel, sink))?;
    if deserves_survey(&from, &to, options) {
        from.survey(kernel, source);
        to.survey(kernel, sink);
    }
    preflight::check(&from, &to, options)?;
    let plan = plan::plan(&from, &to, options)?;
    Ok((from, to, plan))
}

/// Whether the transfer is long enough, or particular enough, to repay a closer look at its ends.
fn deserves_survey(source: &Endpoint, sink: &Endpoint, options: &Options) -> bool {
    let is_long = match source.kind {
        Kind::Regular => source.size.is_some(),
        kind => kind == Kind::Block,
    } && plan::remaining(source, options).is_none_or(|left| left > plan::SMALL);
    is_long
        || source.is_same(sink)
        || options.stable
        || options.observed
        || options.cache == Cache::DropBehind
        || options.sparse == Sparse::Detect
        || plan::forced(options).is_some()
}
