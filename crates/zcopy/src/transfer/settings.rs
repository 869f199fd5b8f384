//! The settings of a transfer: everything but its ends.

use std::os::fd::BorrowedFd;

use crate::endpoint::Endpoint;
use crate::engine::{Callbacks, Engine, PairEngine};
use crate::fast_path::SeriesState;
use crate::fd_info::FdInfo;
use crate::options::Options;
use crate::plan::Plan;
use crate::rate::RateLimiter;
use crate::stop::Stop;
use crate::sys::Kernel;

/// The options and callbacks of a transfer, without its ends.
#[derive(Default)]
pub(super) struct Settings<'a> {
    pub(super) options: Options,
    pub(super) callbacks: Callbacks<'a>,
    pub(super) rate_limiter: Option<RateLimiter>,
    pub(super) record_rate_limiter: Option<RateLimiter>,
    pub(super) stop: Option<Stop>,
    /// The bytes that precede those of the source.
    pub(super) prefix: Vec<u8>,
    pub(super) series_state: Option<&'a SeriesState>,
}

impl<'a> Settings<'a> {
    /// Returns the engine for these descriptors, which have been classified.
    pub(super) fn engine<K: Kernel>(
        self,
        kernel: K,
        (source, from): (BorrowedFd<'a>, FdInfo),
        (sink, to): (BorrowedFd<'a>, FdInfo),
        plan: Plan,
    ) -> PairEngine<'a, K> {
        let source = Endpoint::new(source, from, self.options.source_offset);
        let sink = Endpoint::new(sink, to, self.options.sink_offset);
        let mut engine = PairEngine::new(kernel, source, sink, plan, self.options, self.callbacks);
        engine.context().share_rate_limiter(self.rate_limiter);
        engine.share_record_rate_limiter(self.record_rate_limiter);
        engine.context().stop = self.stop;
        engine.prepend(self.prefix);
        engine
    }
}
