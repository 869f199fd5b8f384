//! The end of a fan-out: fills or releases reservations, and returns the bytes in flight.

use super::FanOutEngine;
use crate::buffer;
use crate::error::RunError;
use crate::options::SyncData;
use crate::report::Ended;
use crate::strategy::Strategy;
use crate::sys::{Blocking, Kernel};

impl<K: Kernel> FanOutEngine<'_, K> {
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
                            // A read of less could divide a packet.
                            let _ = self.fill_buffer(u64::MAX, blocking)?;
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
            self.process_accepted()?;
        }
        Ok(())
    }

    /// Releases the range that is reserved in a sink. Returns true if that fails because another
    /// process or thread has moved the cursor: then the range has to be filled.
    fn cannot_release(&mut self, index: usize) -> bool {
        let sink_state = &mut self.sinks[index];
        let sink = &mut sink_state.state.sink;
        sink_state.failed_with.is_none()
            && sink.reserved() > 0
            && !sink.release(&self.context.kernel)
    }

    /// Seeks the source back over the bytes that not every sink has. Returns them if that fails.
    pub(super) fn return_undelivered(&mut self, delivered: u64) -> Vec<u8> {
        let consumed = self.backlog.consumed();
        let missing = consumed.saturating_sub(delivered);
        let surplus = std::mem::take(&mut self.backlog.surplus);
        let source = &mut self.backlog.state.source;
        if source.rewind(&self.context.kernel, missing) {
            return surplus;
        }
        // The slowest sink's private pipe and buffer hold the next bytes; the backlog holds the
        // rest.
        let slowest = self.live().find(|(_, sink)| sink.delivered == delivered);
        let slowest = slowest.map_or(self.detached_last, |(index, _)| index);
        let sink = &mut self.sinks[slowest];
        let (mut bytes, mut is_whole) = (Vec::new(), true);
        if sink.served_by == Strategy::SplicePipe {
            bytes = sink.state.buffer.take_pending();
            if let Some(pipe) = &mut sink.state.pipe {
                is_whole = pipe.read_to_end(&self.context.kernel, &mut bytes);
            }
        }
        let from = delivered + bytes.len() as u64;
        let kernel = &self.context.kernel;
        if is_whole
            && self.backlog.read_from(kernel, from, &mut bytes)
            && buffer::append(&mut bytes, surplus)
        {
            let source = &mut self.backlog.state.source;
            source.read_reserved(kernel, &mut bytes);
        }
        bytes
    }

    pub(super) fn finish_source(&mut self) {
        if let Some(drop_window) = &mut self.source_drop_window {
            // Pipes hold references to pages of the source's page cache, which are dropped here.
            self.backlog.state.pipe = None;
            for sink in &mut self.sinks {
                sink.state.pipe = None;
            }
            drop_window.finish_read(&self.context.kernel, &self.backlog.state.source);
        }
    }

    pub(super) fn finish_sinks(
        &mut self,
        transferred: &Result<Ended, RunError>,
    ) -> Result<(), RunError> {
        let when = match self.context.options.sync_data {
            SyncData::AtEnd if transferred.is_err() => SyncData::Never,
            when => when,
        };
        let mut outcome = Ok(());
        for index in 0..self.sinks.len() {
            if let Err(error) = self.sinks[index].finish(&self.context.kernel, when) {
                let failed = self.sink_failed(index, error);
                outcome = outcome.and(failed);
            }
        }
        outcome
    }
}
