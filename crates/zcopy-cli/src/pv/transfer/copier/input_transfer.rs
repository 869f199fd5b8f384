//! The transfer of one input, with the options of the settings.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use zcopy::{Report, SkipErrors, Sparse, Strategy, SyncData, Transfer};

use super::{Copier, Limit, display_name};
use crate::common::cli::message;
use crate::pv::settings::Skip;
use crate::pv::transfer::input;
use crate::pv::transfer::inspector::Counted;
use crate::pv::transfer::output::Output;

/// The interval of progress updates while nothing moves.
const TICK: Duration = Duration::from_millis(100);

impl Copier<'_> {
    /// Runs the transfer, with `prefix` before the bytes of the input.
    pub(super) fn transfer(
        &self,
        name: &OsStr,
        input: &impl AsFd,
        output: &Output,
        prefix: Vec<u8>,
    ) -> zcopy::Result<Report> {
        let settings = self.settings;
        let n_prefix = prefix.len() as u64;
        let mut transfer = Transfer::new(input, output)
            .stable(settings.stable)
            .prefix(prefix);
        match (settings.counted, self.limit_of(input.as_fd())) {
            // The limit counts only bytes of the input.
            (Counted::Bytes, Some(left)) => {
                transfer = transfer.limit(left.saturating_sub(n_prefix));
            }
            (Counted::Bytes, None) => {}
            (Counted::Records(delimiter), left) => {
                transfer = transfer.records(delimiter);
                if let Some(left) = left {
                    transfer = transfer.record_limit(left);
                }
            }
        }
        let control = &self.handles.control;
        match (control.limiter(), settings.counted) {
            (Some(limiter), Counted::Bytes) => transfer = transfer.rate_limit(limiter),
            (Some(limiter), Counted::Records(_)) => transfer = transfer.record_rate_limit(limiter),
            (None, _) => {}
        }
        if settings.reads_and_writes {
            transfer = transfer.strategy(Strategy::Buffered);
        }
        if settings.sparse {
            transfer = transfer.sparse(Sparse::Detect);
        }
        if settings.syncs {
            transfer = transfer.sync_data(SyncData::EachStep);
        }
        if let Some(size) = settings.buffer_size {
            transfer = transfer.buffer_size(size);
        }
        if let Some(size) = settings.pipe_size {
            transfer = transfer.pipe_size(size);
        }
        transfer = match settings.skip {
            Skip::Never => transfer,
            Skip::ReportAll(block) | Skip::ReportFirst(block) => {
                transfer.skip_errors(match block {
                    Some(block) => SkipErrors::Block(block),
                    None => SkipErrors::Adaptive,
                })
            }
        };
        let (source, mut is_reported) = (display_name(name), false);
        if settings.skip != Skip::Never {
            transfer = transfer.on_skip(move |skipped| {
                if !is_reported {
                    is_reported = true;
                    let error = message::worded(&skipped.error());
                    self.display
                        .write_message(format!("{source}: warning: read errors detected: {error}"));
                }
                if matches!(settings.skip, Skip::ReportAll(_)) {
                    let (from, len) = (skipped.offset(), skipped.bytes());
                    let to = from + len;
                    self.display.write_message(format!(
                        "{source}: skipped past read error: {from} - {to} ({len} B)"
                    ));
                }
            });
        }
        let shares = self.handles.shares_terminal;
        if !self.is_spooling && (shares || self.progress.inspector().is_needed()) {
            transfer = transfer.inspect(|bytes| {
                self.progress.pass(bytes.len());
                self.progress.inspector().update(bytes);
            });
        }
        if settings.is_watched() {
            transfer = transfer.tick(TICK);
        }
        transfer = transfer.observe(move |progress| {
            // `-Q` may ask at any time, even if nothing is shown.
            self.progress.note(progress);
            if control.is_changed() {
                return ControlFlow::Break(());
            }
            self.handles.stop.flow()
        });
        if settings.explains {
            self.explain(name, &transfer.plan()?.to_string());
        }
        let outcome = transfer.run();
        if settings.explains {
            let report = outcome.as_ref().unwrap_or_else(zcopy::Error::report);
            self.explain(name, &format!("{report:#}"));
        }
        outcome
    }

    /// Returns the limit in bytes or records for this input.
    fn limit_of(&self, input: BorrowedFd<'_>) -> Option<u64> {
        match self.limit {
            Limit::None => None,
            Limit::Total(left) => Some(left),
            Limit::Room(left) => input::is_endless(input).then_some(left),
        }
    }
}
