//! Before the first step: every descriptor is looked at, and the plan is made.

use std::os::fd::BorrowedFd;

use crate::endpoint::Endpoint;
use crate::engine::examine;
use crate::error::Failure;
use crate::fault::Side;
use crate::options::{Cache, Options, SkipErrors};
use crate::plan::{self, Plan};
use crate::preflight;
use crate::sys::{Errno, Kernel};

/// Classifies all descriptors, refuses what cannot work, and plans. Touches nothing.
pub(crate) fn prepare<K: Kernel>(
    kernel: &K,
    source: BorrowedFd<'_>,
    sinks: &[BorrowedFd<'_>],
    options: &Options,
) -> Result<(Endpoint, Vec<Endpoint>, Plan), Failure> {
    if options.skip_errors != SkipErrors::Never {
        let reason = "its bad places can be skipped for a single sink alone";
        return Err(Failure::refused(Side::Source, Errno::INVAL, reason));
    }
    if options.records.limit.is_some() || options.records.rate.is_some() {
        let reason = "its records can be limited for a single sink alone";
        return Err(Failure::refused(Side::Source, Errno::INVAL, reason));
    }
    let mut from = examine(kernel, Side::Source, source)?;
    from.survey(kernel, source);
    let mut ends = Vec::with_capacity(sinks.len());
    for (index, sink) in sinks.iter().enumerate() {
        let mut to = examine(kernel, Side::Sink, *sink)?;
        if options.cache == Cache::DropBehind || from.is_same(&to) {
            to.survey(kernel, *sink);
        }
        // An offset is that of the first.
        let sink_offset = options.sink_offset.filter(|_| index == 0);
        let options = Options {
            sink_offset,
            ..*options
        };
        preflight::check(&from, &to, &options)?;
        ends.push(to);
    }
    let plan = plan::plan_several(&from, &ends, options)?;
    Ok((from, ends, plan))
}
