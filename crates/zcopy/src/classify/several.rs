//! Classifies the descriptors of a transfer to several sinks, checks the input, and makes the plan.

use std::os::fd::BorrowedFd;

use super::classify;
use crate::error::{Error, RunError};
use crate::fd_info::FdInfo;
use crate::options::{Cache, Options, SkipErrors};
use crate::plan::{self, Plan};
use crate::preflight;
use crate::report::{Report, SinkReport};
use crate::side::Side;
use crate::sys::{Errno, Kernel};

/// The reason why a transfer to several sinks did not begin.
#[derive(Debug)]
pub(crate) struct Unprepared {
    error: RunError,
    /// The index of the sink that is wrong, by itself or together with the source.
    sink: Option<usize>,
}

impl From<RunError> for Unprepared {
    /// Makes a failure that concerns no single sink.
    fn from(error: RunError) -> Self {
        Self { error, sink: None }
    }
}

impl Unprepared {
    /// Returns the error for the caller. Its report has one entry for each of `n_sinks` sinks, and
    /// hands back a prefix.
    pub(crate) fn into_error(self, n_sinks: usize, prefix: Vec<u8>) -> Error {
        let mut report = Report::of_prefix(prefix);
        let sinks = (0..n_sinks).map(|index| SinkReport {
            is_detached: false,
            index,
            bytes: 0,
            ahead: 0,
            strategy: None,
            cause: (self.sink == Some(index)).then_some(self.error.cause),
        });
        report.sinks = sinks.collect();
        Error::new(self.error, report)
    }
}

/// Classifies all descriptors, checks the input, and plans. Moves no byte and no cursor.
pub(crate) fn prepare_several<K: Kernel>(
    kernel: &K,
    source: BorrowedFd<'_>,
    sinks: &[BorrowedFd<'_>],
    options: &Options,
) -> Result<(FdInfo, Vec<FdInfo>, Plan), Unprepared> {
    if options.skip_errors != SkipErrors::Never {
        let reason = "skip_errors serves one sink only";
        return Err(RunError::refused(Side::Source, Errno::INVAL, reason).into());
    }
    if options.records.limit.is_some() || options.records.rate.is_some() {
        let reason = "record_limit and record_rate_limit serve one sink only";
        return Err(RunError::refused(Side::Source, Errno::INVAL, reason).into());
    }
    if options.has_prefix {
        let reason = "a prefix serves one sink only";
        return Err(RunError::refused(Side::Source, Errno::INVAL, reason).into());
    }
    let mut from = classify(kernel, Side::Source, source)?;
    from.classify_fully(kernel, source);
    let mut ends = Vec::with_capacity(sinks.len());
    for (index, sink) in sinks.iter().enumerate() {
        let at_fault = |error| Unprepared {
            error,
            sink: Some(index),
        };
        let mut to = classify(kernel, Side::Sink, *sink).map_err(at_fault)?;
        if options.cache == Cache::DropBehind || from.is_same(&to) {
            to.classify_fully(kernel, *sink);
        }
        // An offset belongs to the first sink.
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
