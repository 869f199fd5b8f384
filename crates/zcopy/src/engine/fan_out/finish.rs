//! The end of a fan-out: nothing in flight is lost, and the report is made.

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
    /// Puts the source in order, and says what was done.
    pub(super) fn conclude(&mut self, outcome: Result<Ended, RunError>) -> Result<Report, Error> {
        // First, as a sink may be detached even now.
        let tidied = self.finish_written();
        self.count();
        self.release();
        let undelivered = self.hand_back(self.context.bytes);
        self.finish_read();
        // The first failure is the one that counts.
        let outcome = outcome.and_then(|ended| tidied.map(|()| ended));
        let source = self.backlog.state.source.info;
        let spliced = self.sinks.iter().filter(|sink| sink.has_spliced);
        let shared_pages = spliced
            .map(|sink| plan::page_sharing(Strategy::Splice, &source, &sink.state.sink.info))
            .max()
            .unwrap_or_default();
        let sink_states = self.sinks.iter().enumerate();
        let report = Report {
            records: self.records.count(),
            sinks: sink_states.map(|(index, b)| b.report(index)).collect(),
            shared_pages,
            undelivered: Undelivered(undelivered),
            ..self.context.report(&outcome)
        };
        conclude(outcome, report)
    }

    /// Fills what is reserved of a sink before a transfer stops, because a signal has cut a call for it short: where others
    /// have moved the cursor since, the range would stay a gap.
    ///
    /// The bytes wait in that sink's private pipe, or in the backlog. It is a file, so that no call waits for somebody else,
    /// and no other sink is given anything.
    pub(super) fn fill_sinks(&mut self) -> Result<(), RunError> {
        let (blocking, before) = (Blocking::MaySleep, self.calls());
        for index in 0..self.sinks.len() {
            while self.cannot_release(index) {
                let calls = self.calls();
                let sink = &self.sinks[index];
                let reserved = sink.state.sink.reserved();
                match sink.way {
                    Strategy::Splice => self.pour(index, reserved, blocking)?,
                    Strategy::Buffered => {
                        if self.backlog.state.in_pipe() > 0 {
                            let _ = self.copy(reserved, blocking)?;
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
            self.credit_calls(self.in_use(), calls);
            self.moved()?;
        }
        Ok(())
    }

    /// Gives back what is reserved of a sink. True if that fails, because another process or thread has moved the cursor:
    /// then the range has to be filled.
    fn cannot_release(&mut self, index: usize) -> bool {
        let sink_state = &mut self.sinks[index];
        let sink = &mut sink_state.state.sink;
        sink_state.ended.is_none() && sink.reserved() > 0 && !sink.release(&self.context.kernel)
    }

    /// Gives the source back what has left it and not every sink has: by going back over it where
    /// that can be done, otherwise as bytes.
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
        // Whoever is furthest behind holds what it has been given; all that comes after is in the
        // backlog.
        let mut sinks = self.sinks.iter();
        let behind = sinks.position(|b| b.is_live() && b.delivered == delivered);
        let behind = self.sinks.get_mut(behind.unwrap_or(self.detached_last));
        let mut bytes = Vec::new();
        if let Some(sink) = behind
            && sink.way == Strategy::SplicePipe
        {
            bytes.extend_from_slice(sink.state.buffer.pending());
            if let Some(pipe) = &mut sink.state.pipe {
                bytes.append(&mut pipe.contents(&self.context.kernel));
            }
        }
        let from = delivered + bytes.len() as u64;
        bytes.append(&mut self.backlog.remains(&self.context.kernel, from));
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
            // What is left in a pipe are the source's own pages, which stay as long as it does.
            self.backlog.state.pipe = None;
            self.sinks.iter_mut().for_each(|b| b.state.pipe = None);
            drop_window.finish_read(&self.context.kernel, &self.backlog.state.source);
        }
    }

    fn finish_written(&mut self) -> Result<(), RunError> {
        let mut outcome = Ok(());
        for index in 0..self.sinks.len() {
            let sink = &mut self.sinks[index];
            sink.state.sink.release(&self.context.kernel);
            // Of a step that something else has ended.
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
