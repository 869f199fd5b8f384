//! The end of a transfer: returns bytes in flight, finishes the last hole, releases the rest.

use super::PairEngine;
use crate::call_error::CallError;
use crate::endpoint;
use crate::options::SyncData;
use crate::sys::Kernel;

impl<K: Kernel> PairEngine<'_, K> {
    /// Sets the length of a sink that ends in a hole. If that fails, the hole was not delivered:
    /// its zeros come first among the undelivered bytes.
    pub(super) fn finish_holes(&mut self, undelivered: &mut Vec<u8>) -> Result<(), CallError> {
        let (sink, reopened) = (&self.state.sink, &mut self.state.sink_reopened);
        let Err(error) = self
            .state
            .holes
            .finish(&self.context.kernel, sink, reopened)
        else {
            // The length may have changed, so the sink is synced again.
            return match self.state.holes.bytes {
                0 => Ok(()),
                _ => self.sync_data(SyncData::EachStep),
            };
        };
        let missing = self.state.holes.take_back(&self.context.kernel, sink);
        let n_zeros = self.state.uninspected_zeros.saturating_sub(missing);
        self.state.inspect_zeros(n_zeros);
        let of_prefix = missing.min(self.prefix_len.saturating_sub(self.context.bytes - missing));
        self.take_back(missing);
        self.state.records.take_back_zeros(missing);
        // The first zeros may be those of the prefix, which the source does not have.
        let of_source = missing - of_prefix;
        // Behind bytes that could not be returned to the source, neither can the hole.
        let is_rewound = of_source == 0
            || undelivered.is_empty() && self.state.source.rewind(&self.context.kernel, of_source);
        let not_rewound = if is_rewound { 0 } else { of_source };
        let n_zeros = (of_prefix + not_rewound.min(endpoint::MAX_READ_BACK)) as usize;
        if undelivered.try_reserve_exact(n_zeros).is_ok() {
            undelivered.splice(0..0, std::iter::repeat_n(0, n_zeros));
        } else {
            // Without the zeros, the bytes behind them would follow a gap.
            undelivered.clear();
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

    pub(super) fn finish_cache(&mut self) -> Result<(), CallError> {
        if let Some(drop_window) = &mut self.source_drop_window {
            drop_window.finish_read(&self.context.kernel, &self.state.source);
        }
        match &mut self.sink_drop_window {
            Some(drop_window) => drop_window.finish_written(&self.context.kernel, &self.state.sink),
            None => Ok(()),
        }
    }
}
