//! The end of a fan-out: nothing in flight is lost, and the report is made.

use super::FanOutEngine;
use crate::context::conclude;
use crate::error::{Error, Failure};
use crate::fault::Fault;
use crate::plan;
use crate::report::{Ended, Report, Undelivered};
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::{Kernel, Patience};

impl<K: Kernel> FanOutEngine<'_, K> {
    /// Puts the source in order, and says what was done.
    pub(super) fn conclude(&mut self, outcome: Result<Ended, Failure>) -> Result<Report, Error> {
        // First, as a sink may be detached even now.
        let tidied = self.finish_written();
        self.count();
        self.retire();
        let undelivered = self.hand_back(self.context.bytes);
        self.finish_read();
        // The first failure is the one that counts.
        let outcome = outcome.and_then(|ended| tidied.map(|()| ended));
        let source = self.hub.route.source.endpoint;
        let spliced = self.branches.iter().filter(|branch| branch.has_spliced);
        let shared_pages = spliced
            .map(|branch| {
                plan::page_sharing(Strategy::Splice, &source, &branch.route.sink.endpoint)
            })
            .max()
            .unwrap_or_default();
        let branches = self.branches.iter().enumerate();
        let report = Report {
            records: self.records.count(),
            sinks: branches.map(|(index, b)| b.report(index)).collect(),
            shared_pages,
            undelivered: Undelivered(undelivered),
            ..self.context.report(&outcome)
        };
        conclude(outcome, report)
    }

    /// Fills what is reserved of a sink before a transfer stops, because a signal has cut a call for it short: where others
    /// have moved the cursor since, the range would stay a gap.
    ///
    /// The bytes wait in that sink's private pipe, or in the hub. It is a file, so that no call waits for somebody else,
    /// and no other sink is given anything.
    pub(super) fn fill_sinks(&mut self) -> Result<(), Failure> {
        let (patience, before) = (Patience::Block, self.calls());
        for index in 0..self.branches.len() {
            while self.cannot_release(index) {
                let calls = self.calls();
                let branch = &self.branches[index];
                let reserved = branch.route.sink.reserved();
                match branch.way {
                    Strategy::Splice => self.pour(index, reserved, patience)?,
                    Strategy::Buffered => {
                        if self.hub.route.in_pipe() > 0 {
                            let _ = self.copy(reserved, patience)?;
                        }
                        self.write(index, patience)?
                    }
                    _ => self.drain(index, patience)?,
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
        let branch = &mut self.branches[index];
        let sink = &mut branch.route.sink;
        branch.ended.is_none() && sink.reserved() > 0 && !sink.release(&self.context.kernel)
    }

    /// Gives the source back what has left it and not every sink has: by going back over it where
    /// that can be done, otherwise as bytes.
    fn hand_back(&mut self, delivered: u64) -> Vec<u8> {
        let consumed = self.hub.consumed();
        let missing = consumed.saturating_sub(delivered);
        let mut surplus = std::mem::take(&mut self.hub.surplus);
        if self.hub.route.source.rewind(&self.context.kernel, missing) {
            return surplus;
        }
        // Whoever is furthest behind holds what it has been given; all that comes after is in the
        // hub.
        let mut branches = self.branches.iter();
        let behind = branches.position(|b| b.is_live() && b.delivered == delivered);
        let behind = self.branches.get_mut(behind.unwrap_or(self.detached_last));
        let mut bytes = Vec::new();
        if let Some(branch) = behind
            && branch.way == Strategy::SplicePipe
        {
            bytes.extend_from_slice(branch.route.buffer.pending());
            if let Some(pipe) = &mut branch.route.pipe {
                bytes.append(&mut pipe.contents(&self.context.kernel));
            }
        }
        let from = delivered + bytes.len() as u64;
        bytes.append(&mut self.hub.remains(&self.context.kernel, from));
        bytes.append(&mut surplus);
        bytes.append(&mut self.hub.route.source.read_reserved(&self.context.kernel));
        bytes
    }

    fn finish_read(&mut self) {
        if let Some(trail) = &mut self.source_trail {
            // What is left in a pipe are the source's own pages, which stay as long as it does.
            self.hub.route.pipe = None;
            self.branches.iter_mut().for_each(|b| b.route.pipe = None);
            trail.finish_read(&self.context.kernel, &self.hub.route.source);
        }
    }

    fn finish_written(&mut self) -> Result<(), Failure> {
        let mut outcome = Ok(());
        for index in 0..self.branches.len() {
            let branch = &mut self.branches[index];
            branch.route.sink.release(&self.context.kernel);
            // Of a step that something else has ended.
            if let Err(fault) =
                branch.sync_data(&self.context.kernel, self.context.options.sync_data)
            {
                let failed = self.sink_failed(index, fault);
                outcome = outcome.and(failed);
            }
            let branch = &mut self.branches[index];
            if let Some(trail) = &mut branch.trail
                && let Err(errno) = trail.finish_written(&self.context.kernel, &branch.route.sink)
            {
                let fault = Fault::new("sync_file_range", Side::Sink, errno);
                let failed = self.sink_failed(index, fault);
                outcome = outcome.and(failed);
            }
            let branch = &mut self.branches[index];
            if let Err(fault) = branch.route.sink_detour.close(&self.context.kernel) {
                let failed = self.sink_failed(index, fault);
                outcome = outcome.and(failed);
            }
        }
        outcome
    }
}
