//! How a [`Transfer`] becomes an engine, in one run or in the steps of a session.

use std::os::fd::{AsFd, BorrowedFd};

use super::Transfer;
use crate::classify;
use crate::drive;
use crate::endpoint::Endpoint;
use crate::engine::{Callbacks, Engine, PairEngine};
use crate::error::{Error, Result, RunError};
use crate::fast_path::{self, FastPath, SeriesState};
use crate::fd_info::FdInfo;
use crate::options::Options;
use crate::plan::Plan;
use crate::rate::RateLimiter;
use crate::report::Report;
use crate::session::{Ends, Steps};
use crate::stop::Stop;
use crate::sys::{Kernel, WithOwners};

impl<'a, Source: AsFd, Sink: AsFd> Transfer<'a, Source, Sink> {
    /// Begins on `kernel`; tests pass a simulated one.
    pub(crate) fn start_on<K>(
        mut self,
        kernel: K,
    ) -> Result<WithOwners<Steps<'a, K>, Ends<Source, Sink>>>
    where
        K: Kernel + Copy + Send + 'a,
    {
        self.options.stepped = true;
        let (source, sink) = (self.source.as_fd(), self.sink.as_fd());
        let prepared = classify::prepare(&kernel, source, sink, &self.options);
        let (mut from, mut to, plan) =
            prepared.map_err(|error| before_anything_moved(error, &self.prefix))?;
        let (source, sink, rest) = self.into_parts();
        let ends = Ends::new(&kernel, source, sink, (&mut from, &mut to), &rest.options);
        Ok(WithOwners::new(ends, |ends, lender| {
            let source = lender.lend(ends.source_fd());
            let sink = lender.lend(ends.sink_fd());
            Steps::new(rest.engine(kernel, (source, from), (sink, to), plan))
        }))
    }

    /// Runs on `kernel`; tests pass a simulated one.
    pub(crate) fn run_with<K: Kernel + Copy>(self, kernel: K) -> Result<Report> {
        let (source, sink, rest) = self.into_parts();
        let (source_fd, sink_fd, options) = (source.as_fd(), sink.as_fd(), &rest.options);
        let fast_path =
            fast_path::try_fast_path(&kernel, source_fd, sink_fd, options, rest.series_state);
        let refused = |error| before_anything_moved(error, &rest.prefix);
        let (from, to, partial) = match fast_path.map_err(refused)? {
            FastPath::Done(report) => return Ok(report),
            FastPath::Continue(from, to, partial) => (from, to, partial),
        };
        // If the fast path has moved bytes, these checks have passed before and pass again: an
        // error comes only before anything has moved.
        let prepared = classify::prepare_classified(&kernel, source_fd, sink_fd, from, to, options);
        let (mut from, mut to, plan) = prepared.map_err(refused)?;
        let ends = Ends::new(&kernel, &source, &sink, (&mut from, &mut to), options);
        let (source, sink) = ((ends.source_fd(), from), (ends.sink_fd(), to));
        let mut engine = rest.engine(kernel, source, sink, plan);
        engine.resume(partial);
        drive::run(&mut engine)
    }

    /// Parts the ends from everything else.
    fn into_parts(self) -> (Source, Sink, Rest<'a>) {
        let rest = Rest {
            options: self.options,
            callbacks: self.callbacks,
            rate_limiter: self.rate_limiter,
            record_rate_limiter: self.record_rate_limiter,
            stop: self.stop,
            prefix: self.prefix,
            series_state: self.series_state,
        };
        (self.source, self.sink, rest)
    }
}

/// Returns the error of a transfer that has not begun. Its report hands back the prefix.
fn before_anything_moved(error: RunError, prefix: &[u8]) -> Error {
    Error::new(error, Report::of_prefix(prefix))
}

/// The options and callbacks of a transfer, without its ends.
struct Rest<'a> {
    options: Options,
    callbacks: Callbacks<'a>,
    rate_limiter: Option<RateLimiter>,
    record_rate_limiter: Option<RateLimiter>,
    stop: Option<Stop>,
    prefix: Vec<u8>,
    series_state: Option<&'a SeriesState>,
}

impl<'a> Rest<'a> {
    /// Returns the engine for these descriptors, which have been classified.
    fn engine<K: Kernel>(
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
        engine.prepend(&self.prefix);
        engine
    }
}
