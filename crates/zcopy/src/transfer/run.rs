//! How a [`Transfer`] becomes an engine, in one run or in the steps of a session.

use std::os::fd::AsFd;

use super::Transfer;
use crate::classify;
use crate::drive;
use crate::error::{Error, Result, RunError};
use crate::fast_path::{self, FastPath};
use crate::report::Report;
use crate::session::{Ends, Steps};
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
        self.settings.options.stepped = true;
        let (source, sink) = (self.source.as_fd(), self.sink.as_fd());
        let prepared = classify::prepare(&kernel, source, sink, &self.settings.options);
        let (mut from, mut to, plan) =
            prepared.map_err(|error| before_anything_moved(error, &mut self.settings.prefix))?;
        let Self {
            source,
            sink,
            settings,
        } = self;
        let ends = Ends::new(
            &kernel,
            source,
            sink,
            (&mut from, &mut to),
            &settings.options,
        );
        Ok(WithOwners::new(ends, |ends, lender| {
            let source = lender.lend(ends.source_fd());
            let sink = lender.lend(ends.sink_fd());
            Steps::new(settings.engine(kernel, (source, from), (sink, to), plan))
        }))
    }

    /// Runs on `kernel`; tests pass a simulated one.
    pub(crate) fn run_with<K: Kernel + Copy>(self, kernel: K) -> Result<Report> {
        let Self {
            source,
            sink,
            mut settings,
        } = self;
        let (source_fd, sink_fd, options) = (source.as_fd(), sink.as_fd(), &settings.options);
        let fast_path =
            fast_path::try_fast_path(&kernel, source_fd, sink_fd, options, settings.series_state);
        let mut refused = |error| before_anything_moved(error, &mut settings.prefix);
        let (from, to, partial) = match fast_path.map_err(&mut refused)? {
            FastPath::Done(report) => return Ok(report),
            FastPath::Continue(from, to, partial) => (from, to, partial),
        };
        // If the fast path has moved bytes, these checks have passed before and pass again: an
        // error comes only before anything has moved.
        let prepared = classify::prepare_classified(&kernel, source_fd, sink_fd, from, to, options);
        let (mut from, mut to, plan) = prepared.map_err(refused)?;
        let ends = Ends::new(&kernel, &source, &sink, (&mut from, &mut to), options);
        let (source, sink) = ((ends.source_fd(), from), (ends.sink_fd(), to));
        let mut engine = settings.engine(kernel, source, sink, plan);
        engine.resume(partial);
        drive::run(&mut engine)
    }
}

/// Returns the error of a transfer that has not begun. Its report hands back the prefix.
fn before_anything_moved(error: RunError, prefix: &mut Vec<u8>) -> Error {
    Error::new(error, Report::of_prefix(std::mem::take(prefix)))
}
