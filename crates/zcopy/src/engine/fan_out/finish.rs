//! The end of a fan-out: returns the bytes in flight and makes the report.

use super::FanOutEngine;
use crate::call_error::CallError;
use crate::context::conclude;
use crate::error::{Error, RunError};
use crate::plan;
use crate::report::{Ended, Report, Undelivered};
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::{Blocking, Kernel};

impl<K: Kernel> FanOutEngine<'_, K> {
    /// Releases what the transfer holds and makes the report.
    pub(super) fn conclude(&mut self, outcome: Result<Ended, RunError>) -> Result<Report, Error> {
        // This comes first because it may still detach a sink.
        let cleanup = self.finish_written();
        self.count();
        self.release();
        let undelivered = self.hand_back(self.context.bytes);
        self.finish_read();
        // The first failure is the one that is reported.
        let outcome = outcome.and_then(|ended| cleanup.map(|()| ended));
        let source = self.backlog.state.source.info;
        let spliced = self.sinks.iter().filter(|sink| sink.has_spliced);
        let shared_pages = spliced
            .map(|sink| plan::page_sharing(Strategy::Splice, &source, &sink.state.sink.info))
            .max()
            .unwrap_or_default();
        let sink_states = self.sinks.iter().enumerate();
        let report = Report {
            records: self.records.count(),
            sinks: sink_states
                .map(|(index, sink)| sink.report(index))
                .collect(),
            shared_pages,
            undelivered: Undelivered(undelivered),
            ..self.context.report(&outcome)
        };
        conclude(outcome, report)
    }

    /// Fills the ranges that are reserved in sinks before a transfer stops, if a signal has cut a
    /// call short: where another process has moved the cursor since, the range would stay a gap.
    ///
    /// The bytes are in that sink's private pipe, or in the backlog. The sink is a file, so no call
    /// waits for another process, and no other sink receives anything.
    pub(super) fn fill_reserved_ranges(&mut self) -> Result<(), RunError> {
        let (blocking, before) = (Blocking::MaySleep, self.calls());
        for index in 0..self.sinks.len() {
            while self.cannot_release(index) {
                let calls = self.calls();
                let sink = &self.sinks[index];
                let reserved = sink.state.sink.reserved();
                match sink.served_by {
                    Strategy::Splice => self.splice(index, reserved, blocking)?,
                    Strategy::Buffered => {
                        if self.backlog.state.in_pipe() > 0 {
                            let _ = self.fill_buffer(reserved, blocking)?;
                        }
                        self.write(index, blocking)?
                    }
                    _ => self.drain(index, blocking)?,
                };
                if self.calls() == calls {
                    break;
                }
            }
        }
        let calls = self.calls() - before;
        if calls > 0 {
            self.credit_calls(self.strategy(), calls);
            self.moved()?;
        }
        Ok(())
    }

    /// Releases the range that is reserved in a sink. Returns true if that fails because another
    /// process or thread has moved the cursor: then the range has to be filled.
    fn cannot_release(&mut self, index: usize) -> bool {
        let sink_state = &mut self.sinks[index];
        let sink = &mut sink_state.state.sink;
        sink_state.ended.is_none() && sink.reserved() > 0 && !sink.release(&self.context.kernel)
    }

    /// Seeks the source back over the bytes that not every sink has. Returns them if that fails.
    fn hand_back(&mut self, delivered: u64) -> Vec<u8> {
        let consumed = self.backlog.consumed();
        let missing = consumed.saturating_sub(delivered);
        let mut surplus = std::mem::take(&mut self.backlog.surplus);
        if self
            .backlog
            .state
            .source
            .rewind(&self.context.kernel, missing)
        {
            return surplus;
        }
        // The slowest sink's private pipe and buffer hold the next bytes; the backlog holds the
        // rest.
        let mut sinks = self.sinks.iter();
        let behind = sinks.position(|sink| sink.is_live() && sink.delivered == delivered);
        let behind = self.sinks.get_mut(behind.unwrap_or(self.detached_last));
        let mut bytes = Vec::new();
        if let Some(sink) = behind
            && sink.served_by == Strategy::SplicePipe
        {
            bytes.extend_from_slice(sink.state.buffer.pending());
            if let Some(pipe) = &mut sink.state.pipe {
                bytes.append(&mut pipe.contents(&self.context.kernel));
            }
        }
        let from = delivered + bytes.len() as u64;
        bytes.append(&mut self.backlog.bytes_from(&self.context.kernel, from));
        bytes.append(&mut surplus);
        bytes.append(
            &mut self
                .backlog
                .state
                .source
                .read_reserved(&self.context.kernel),
        );
        bytes
    }

    fn finish_read(&mut self) {
        if let Some(drop_window) = &mut self.source_drop_window {
            // Pipes hold references to pages of the source's page cache, which are dropped here.
            self.backlog.state.pipe = None;
            self.sinks
                .iter_mut()
                .for_each(|sink| sink.state.pipe = None);
            drop_window.finish_read(&self.context.kernel, &self.backlog.state.source);
        }
    }

    fn finish_written(&mut self) -> Result<(), RunError> {
        let mut outcome = Ok(());
        for index in 0..self.sinks.len() {
            let sink = &mut self.sinks[index];
            sink.state.sink.release(&self.context.kernel);
            // The last step may have failed before it synced.
            if let Err(error) = sink.sync_data(&self.context.kernel, self.context.options.sync_data)
            {
                let failed = self.sink_failed(index, error);
                outcome = outcome.and(failed);
            }
            let sink = &mut self.sinks[index];
            if let Some(drop_window) = &mut sink.drop_window
                && let Err(errno) =
                    drop_window.finish_written(&self.context.kernel, &sink.state.sink)
            {
                let error = CallError::new("sync_file_range", Side::Sink, errno);
                let failed = self.sink_failed(index, error);
                outcome = outcome.and(failed);
            }
            let sink = &mut self.sinks[index];
            if let Err(error) = sink.state.sink_reopened.close(&self.context.kernel) {
                let failed = self.sink_failed(index, error);
                outcome = outcome.and(failed);
            }
        }
        outcome
    }
}
