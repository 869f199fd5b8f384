//! The end of a transfer: nothing in flight is lost, the last hole has its length, and the report
//! is made.

use super::PairEngine;
use crate::context::conclude;
use crate::end;
use crate::error::{Error, Failure};
use crate::fault::{Cause, Fault};
use crate::plan;
use crate::report::{Ended, Report, Undelivered};
use crate::side::Side;
use crate::sys::Kernel;

impl<K: Kernel> PairEngine<'_, K> {
    /// Puts both ends in order, and says what was done.
    pub(super) fn conclude(&mut self, outcome: Result<Ended, Failure>) -> Result<Report, Error> {
        let mut undelivered = self.hand_back();
        // What it still holds are the source's own pages, which stay as long as it does.
        self.route.pipe = None;
        let tidied = self.finish_holes(&mut undelivered);
        self.route.inspect_zeros(u64::MAX);
        let released = self.release_sink();
        let closed = self.route.sink_detour.close(&self.context.kernel);
        let tidied = tidied
            .and(released)
            .and_then(|()| self.finish_cache())
            .and(closed);
        // The first failure is the one that counts.
        let outcome = outcome.and_then(|ended| tidied.map(|()| ended).map_err(Failure::from));
        let (source, sink) = (&self.route.source.endpoint, &self.route.sink.endpoint);
        let attempts = self.context.attempts.iter();
        let shared_pages = attempts
            .filter(|attempt| attempt.bytes > 0)
            .map(|attempt| plan::page_sharing(attempt.strategy, source, sink))
            .max()
            .unwrap_or_default();
        let report = Report {
            records: self.route.records.count(),
            hole_bytes: self.route.holes.bytes,
            // Of a hole that was taken back it is not known what of it had been skipped.
            skipped_bytes: self.route.bad.bytes().min(self.context.bytes),
            shared_pages,
            undelivered: Undelivered(undelivered),
            ..self.context.report(&outcome)
        };
        conclude(outcome, report)
    }

    /// Gives the source back what the sink did not take: by going back over it where that can be
    /// done, otherwise as bytes.
    fn hand_back(&mut self) -> Vec<u8> {
        let is_back = match self.route.in_pipe() {
            0 => {
                let bytes = self.route.buffer.pending();
                self.route.source.rewind_over(&self.context.kernel, bytes)
            }
            _ => self
                .route
                .source
                .rewind(&self.context.kernel, self.route.in_flight()),
        };
        if is_back {
            return Vec::new();
        }
        let mut bytes = self.route.buffer.pending().to_vec();
        if let Some(pipe) = &mut self.route.pipe {
            bytes.append(&mut pipe.contents(&self.context.kernel));
        }
        bytes.append(&mut self.route.source.read_reserved(&self.context.kernel));
        bytes
    }

    /// Gives the sink its length if it ends in a hole. If that fails, the hole was not delivered
    /// after all: its zeros are given back, before whatever else is.
    fn finish_holes(&mut self, undelivered: &mut Vec<u8>) -> Result<(), Fault> {
        let (sink, detour) = (&self.route.sink, &mut self.route.sink_detour);
        let Err(fault) = self.route.holes.finish(&self.context.kernel, sink, detour) else {
            // Its length may be new.
            return match self.route.holes.bytes {
                0 => Ok(()),
                _ => self.sync_data(),
            };
        };
        let missing = self.route.holes.take_back(&self.context.kernel, sink);
        let n_zeros = self.route.uninspected_zeros.saturating_sub(missing);
        self.route.inspect_zeros(n_zeros);
        self.take_back(missing);
        self.route.records.take_back_zeros(missing);
        if !self.route.source.rewind(&self.context.kernel, missing) {
            let n_zeros = missing.min(end::MOST_READ_BACK) as usize;
            undelivered.splice(0..0, std::iter::repeat_n(0, n_zeros));
        }
        self.route.sink.rewind(&self.context.kernel, missing);
        Err(fault)
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
    fn release_sink(&mut self) -> Result<(), Fault> {
        if self.route.sink.release(&self.context.kernel) {
            return Ok(());
        }
        Err(Fault {
            call: "lseek",
            side: Side::Sink,
            cause: Cause::Gap,
        })
    }

    fn finish_cache(&mut self) -> Result<(), Fault> {
        let Some(drop_behind) = &mut self.drop_behind else {
            return Ok(());
        };
        drop_behind
            .finish(&self.context.kernel, &self.route.source, &self.route.sink)
            .map_err(|errno| Fault::new("sync_file_range", Side::Sink, errno))
    }
}
