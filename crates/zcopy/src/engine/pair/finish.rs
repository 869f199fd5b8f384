//! The end of a transfer: nothing in flight is lost, the last hole has its length, and the report
//! is made.

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
    /// Puts both ends in order, and says what was done.
    pub(super) fn conclude(&mut self, outcome: Result<Ended, RunError>) -> Result<Report, Error> {
        let mut undelivered = self.hand_back();
        // What it still holds are the source's own pages, which stay as long as it does.
        self.state.pipe = None;
        let tidied = self.finish_holes(&mut undelivered);
        self.state.inspect_zeros(u64::MAX);
        let released = self.release_sink();
        let closed = self.state.sink_reopened.close(&self.context.kernel);
        let tidied = tidied
            .and(released)
            .and_then(|()| self.finish_cache())
            .and(closed);
        // The first failure is the one that counts.
        let outcome = outcome.and_then(|ended| tidied.map(|()| ended).map_err(RunError::from));
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
            // Of a hole that was taken back it is not known what of it had been skipped.
            skipped_bytes: self.state.bad.bytes().min(self.context.bytes),
            shared_pages,
            undelivered: Undelivered(undelivered),
            ..self.context.report(&outcome)
        };
        conclude(outcome, report)
    }

    /// Gives the source back what the sink did not take: by going back over it where that can be
    /// done, otherwise as bytes.
    fn hand_back(&mut self) -> Vec<u8> {
        let is_back = match self.state.in_pipe() {
            0 => {
                let bytes = self.state.buffer.pending();
                self.state.source.rewind_over(&self.context.kernel, bytes)
            }
            _ => self
                .state
                .source
                .rewind(&self.context.kernel, self.state.in_flight()),
        };
        if is_back {
            return Vec::new();
        }
        let mut bytes = self.state.buffer.pending().to_vec();
        if let Some(pipe) = &mut self.state.pipe {
            bytes.append(&mut pipe.contents(&self.context.kernel));
        }
        bytes.append(&mut self.state.source.read_reserved(&self.context.kernel));
        bytes
    }

    /// Gives the sink its length if it ends in a hole. If that fails, the hole was not delivered
    /// after all: its zeros are given back, before whatever else is.
    fn finish_holes(&mut self, undelivered: &mut Vec<u8>) -> Result<(), CallError> {
        let (sink, reopened) = (&self.state.sink, &mut self.state.sink_reopened);
        let Err(error) = self
            .state
            .holes
            .finish(&self.context.kernel, sink, reopened)
        else {
            // Its length may be new.
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

    /// Counts the last `n` bytes as not delivered after all.
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

    /// Gives back the range that is reserved of the sink and was not filled.
    ///
    /// If somebody else has moved the cursor since, the range stays a gap. A failed call explains that; otherwise the source
    /// has become shorter than it was when the range was reserved.
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
