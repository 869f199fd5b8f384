//! The beginning and the end of the warm-up.

use super::{PairEngine, Phase};
use crate::endpoint::{Available, Endpoint};
use crate::fd_info::Kind;
use crate::options::Options;
use crate::plan::{self, Plan};
use crate::sys::Kernel;

/// Returns the phase in which a transfer by this plan begins. There is no warm-up from a pipe that
/// holds 64 KiB and has a writer to a file or stream socket. Into a pipe or `/dev/null`, 128 KiB
/// without a warm-up measured 0.8 to 0.9 times the speed.
pub(super) fn first_phase<K: Kernel>(
    kernel: &K,
    plan: &Plan,
    source: &Endpoint<'_>,
    sink: &Endpoint<'_>,
    options: &Options,
) -> Phase {
    let gains = !options.relayed && plan::gains_from_private_pipe(&source.info, &sink.info);
    match plan.warm_up() {
        Some(_) if gains && source.has_bulk_and_writer(kernel) => Phase::Main,
        Some(strategy) => Phase::WarmUp(strategy),
        None => Phase::Main,
    }
}

impl<K: Kernel> PairEngine<'_, K> {
    /// Returns whether a step that moved `n` bytes ends the warm-up: the bytes come in bulk, none is
    /// in flight, and a private pipe is likely to save more than it costs.
    pub(super) fn has_warmed_up(&self, n: u64) -> bool {
        let came_at_once = n >= plan::OFFLOAD_ABOVE || self.state.buffer.was_filled();
        let (source, sink) = (&self.state.source.info, &self.state.sink.info);
        let is_bulk = self.context.bytes >= plan::warm_up_len(source, sink) && came_at_once;
        is_bulk && self.state.in_flight() == 0 && self.is_pipe_worthwhile()
    }

    /// Returns whether a private pipe is likely to save more than it costs. A relay's pipe is small,
    /// and costs less.
    fn is_pipe_worthwhile(&self) -> bool {
        let source = &self.state.source;
        let has_bulk_waiting = || {
            let waiting = self.context.kernel.n_waiting(source.fd);
            waiting.map_or(true, |n| n >= plan::waiting_bulk(&self.state.sink.info))
        };
        let is_long = self.context.options.relayed || self.context.bytes >= plan::LONG_STREAM;
        match source.info.kind {
            Kind::Stream => is_long || has_bulk_waiting(),
            _ => is_long || source.available(&self.context.kernel) != Available::End,
        }
    }
}
