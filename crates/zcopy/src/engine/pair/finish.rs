//! The end of a transfer: returns bytes in flight, finishes the last hole and makes the report.

use super::PairEngine;
use crate::call_error::{CallError, Cause};
use crate::context::conclude;
use crate::endpoint;
use crate::error::{Error, RunError};
use crate::plan;
use crate::report::{Ended, Report, Undelivered};
use crate::side::Side;
use crate::sys::Kernel;

impl<K: Kernel> PairEngine<'_, K> {
    /// Releases what the transfer holds and makes the report.
    pub(super) fn conclude(&mut self, outcome: Result<Ended, RunError>) -> Result<Report, Error> {
        let mut undelivered = self.hand_back();
        // The pipe holds references to pages of the source's page cache, which `finish_cache`
        // drops.
        self.state.pipe = None;
        let cleanup = self.finish_holes(&mut undelivered);
        self.state.inspect_zeros(u64::MAX);
        let released = self.release_sink();
        let closed = self.state.sink_reopened.close(&self.context.kernel);
        let cleanup = cleanup
            .and(released)
            .and_then(|()| self.finish_cache())
            .and(closed);
        // The first failure is the one that is reported.
        let outcome = outcome.and_then(|ended| cleanup.map(|()| ended).map_err(RunError::from));
        let (source, sink) = (&self.state.source.info, &self.state.sink.info);
        let attempts = self.context.attempts.iter();
        let shared_pages = attempts
            .filter(|attempt| attempt.bytes > 0)
            .map(|attempt| plan::page_sharing(attempt.strategy, source, sink))
            .max()
            .unwrap_or_default();
        let report = Report {
            records: self.state.records.count(),
            hole_bytes: self.state.holes.bytes,
            // When a hole was taken back, the part of it that had been skipped is unknown.
            skipped_bytes: self.state.bad.bytes().min(self.context.bytes),
            shared_pages,
            undelivered: Undelivered(undelivered),
            ..self.context.report(&outcome)
        };
        conclude(outcome, report)
    }

    /// Seeks the source back over the bytes that the sink did not accept. Returns them if that
    /// fails.
    fn hand_back(&mut self) -> Vec<u8> {
        let is_rewound = match self.state.in_pipe() {
            0 => {
                let bytes = self.state.buffer.pending();
                self.state.source.rewind_over(&self.context.kernel, bytes)
            }
            _ => self
                .state
                .source
                .rewind(&self.context.kernel, self.state.in_flight()),
        };
        if is_rewound {
            return Vec::new();
        }
        let mut bytes = self.state.buffer.pending().to_vec();
        if let Some(pipe) = &mut self.state.pipe {
            bytes.append(&mut pipe.contents(&self.context.kernel));
        }
        bytes.append(&mut self.state.source.read_reserved(&self.context.kernel));
        bytes
    }

    /// Sets the length of a sink that ends in a hole. If that fails, the hole was not delivered:
    /// its zeros come first among the undelivered bytes.
    fn finish_holes(&mut self, undelivered: &mut Vec<u8>) -> Result<(), CallError> {
        let (sink, reopened) = (&self.state.sink, &mut self.state.sink_reopened);
        let Err(error) = self
            .state
            .holes
            .finish(&self.context.kernel, sink, reopened)
        else {
            // The length may have changed, so the sink is synced again.
            return match self.state.holes.bytes {
                0 => Ok(()),
                _ => self.sync_data(),
            };
        };
        let missing = self.state.holes.take_back(&self.context.kernel, sink);
        let n_zeros = self.state.uninspected_zeros.saturating_sub(missing);
        self.state.inspect_zeros(n_zeros);
        self.take_back(missing);
        self.state.records.take_back_zeros(missing);
        if !self.state.source.rewind(&self.context.kernel, missing) {
            let n_zeros = missing.min(endpoint::MOST_READ_BACK) as usize;
            undelivered.splice(0..0, std::iter::repeat_n(0, n_zeros));
        }
        self.state.sink.rewind(&self.context.kernel, missing);
        Err(error)
    }

    /// Takes `n` bytes back from the counts, last strategy first.
    fn take_back(&mut self, n: u64) {
        self.context.bytes -= n;
        let mut left = n;
        for attempt in self.context.attempts.iter_mut().rev() {
            let taken = left.min(attempt.bytes);
            attempt.bytes -= taken;
            attempt.hole_bytes = attempt.hole_bytes.saturating_sub(taken);
            left -= taken;
        }
    }

    /// Releases the range that is reserved in the sink and was not filled.
    ///
    /// If another process or thread has moved the cursor since, the range stays a gap. Either a
    /// failed call explains that, or the source has shrunk since the range was reserved.
    fn release_sink(&mut self) -> Result<(), CallError> {
        if self.state.sink.release(&self.context.kernel) {
            return Ok(());
        }
        Err(CallError {
            call: "lseek",
            side: Side::Sink,
            cause: Cause::Gap,
        })
    }

    fn finish_cache(&mut self) -> Result<(), CallError> {
        let Some(drop_behind) = &mut self.drop_behind else {
            return Ok(());
        };
        drop_behind
            .finish(&self.context.kernel, &self.state.source, &self.state.sink)
            .map_err(|errno| CallError::new("sync_file_range", Side::Sink, errno))
    }
}
