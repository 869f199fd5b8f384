//! Before the first step: every descriptor is looked at, and the plan is made.

use std::os::fd::BorrowedFd;

use super::examine;
use crate::endpoint::Endpoint;
use crate::error::{Error, Failure};
use crate::options::{Cache, Options, SkipErrors};
use crate::plan::{self, Plan};
use crate::preflight;
use crate::report::{Ended, Report, SinkReport};
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::{Errno, Kernel};

/// Why a fan-out did not begin.
#[derive(Debug)]
pub(crate) struct Unprepared {
    failure: Failure,
    /// The index of the sink that is at fault, alone or together with the source.
    sink: Option<usize>,
}

impl From<Failure> for Unprepared {
    /// A failure of no sink in particular.
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            sink: None,
        }
    }
}

impl Unprepared {
    /// The error for the caller, whose report has one entry for each of `n_sinks` sinks.
    pub(crate) fn into_error(self, n_sinks: usize) -> Error {
        let strategy = Strategy::Buffered;
        let mut report = Report::of_nothing(Ended::Failed, strategy);
        let sinks = (0..n_sinks).map(|index| SinkReport {
            index,
            bytes: 0,
            strategy,
            cause: (self.sink == Some(index)).then_some(self.failure.cause),
        });
        report.sinks = sinks.collect();
        Error::new(self.failure, report)
    }
}

/// Classifies all descriptors, refuses what cannot work, and plans. Touches nothing.
pub(crate) fn prepare_several<K: Kernel>(
    kernel: &K,
    source: BorrowedFd<'_>,
    sinks: &[BorrowedFd<'_>],
    options: &Options,
) -> Result<(Endpoint, Vec<Endpoint>, Plan), Unprepared> {
    if options.skip_errors != SkipErrors::Never {
        let reason = "its bad places can be skipped for a single sink alone";
        return Err(Failure::refused(Side::Source, Errno::INVAL, reason).into());
    }
    if options.records.limit.is_some() || options.records.rate.is_some() {
        let reason = "its records can be limited for a single sink alone";
        return Err(Failure::refused(Side::Source, Errno::INVAL, reason).into());
    }
    let mut from = examine(kernel, Side::Source, source)?;
    from.survey(kernel, source);
    let mut ends = Vec::with_capacity(sinks.len());
    for (index, sink) in sinks.iter().enumerate() {
        let at_fault = |failure| Unprepared {
            failure,
            sink: Some(index),
        };
        let mut to = examine(kernel, Side::Sink, *sink).map_err(at_fault)?;
        if options.cache == Cache::DropBehind || from.is_same(&to) {
            to.survey(kernel, *sink);
        }
        // An offset is that of the first.
        let sink_offset = options.sink_offset.filter(|_| index == 0);
        let options = Options {
            sink_offset,
            ..*options
        };
        preflight::check(&from, &to, &options).map_err(at_fault)?;
        ends.push(to);
    }
    let plan = plan::plan_several(&from, &ends, options)?;
    Ok((from, ends, plan))
}
