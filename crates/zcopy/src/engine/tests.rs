//! The engine against a kernel that does on demand what a real one does rarely ([`crate::scripted`]).
//!
//! In [`properties`] random transfers run into random trouble; the other tests have a script each.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics fails"
)]

use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use super::{Audience, Engine, Legacy, Way, go_short, prepare, prepare_examined};
use crate::end::End;
use crate::error::{Error, Failure};
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Report, Skipped};
use crate::scripted::Scripted;
use crate::strategy::Strategy;
use crate::sys::Errno;

mod properties;

mod at_once;
mod bad_places;
mod company;
mod direct;
mod drop_behind;
mod economy;
mod errnos;
mod holes;
mod pacing;
mod records;
mod repeating;
mod short;
mod stopping;
mod syncing;
mod waiting;

/// What came of a transfer.
#[derive(Debug)]
enum Outcome {
    /// It was not even begun.
    Refused(#[allow(dead_code, reason = "printed when a test fails")] Failure),
    Ran(Result<Report, Error>),
}

/// Runs a transfer in the scripted kernel, as `Transfer::run` does in the real one.
fn transfer_watched(
    kernel: &Scripted,
    ends: (&OwnedFd, &OwnedFd),
    options: Options,
    observe: impl FnMut(&Progress) -> ControlFlow<()>,
    inspect: impl FnMut(&[u8]),
) -> Outcome {
    transfer_told(kernel, ends, options, (observe, inspect, |_: &Skipped| {}))
}

/// The same, with somebody who is told of bad places.
fn transfer_told(
    kernel: &Scripted,
    ends: (&OwnedFd, &OwnedFd),
    options: Options,
    told: (
        impl FnMut(&Progress) -> ControlFlow<()>,
        impl FnMut(&[u8]),
        impl FnMut(&Skipped),
    ),
) -> Outcome {
    transfer_after(kernel, ends, options, told, None)
}

/// The same, after others into the same sink.
fn transfer_after(
    kernel: &Scripted,
    (source, sink): (&OwnedFd, &OwnedFd),
    options: Options,
    (observe, inspect, on_skip): (
        impl FnMut(&Progress) -> ControlFlow<()>,
        impl FnMut(&[u8]),
        impl FnMut(&Skipped),
    ),
    legacy: Option<&Legacy>,
) -> Outcome {
    let fds = (source.as_fd(), sink.as_fd());
    let (from, to, begun) = match go_short(&kernel, fds, &options, legacy) {
        Ok(Way::Whole(report)) => return Outcome::Ran(Ok(report)),
        Ok(Way::Long(from, to, begun)) => (from, to, begun),
        Err(failure) => return Outcome::Refused(failure),
    };
    let (from, to, plan) = match prepare_examined(&kernel, fds, (from, to), &options) {
        Ok(prepared) => prepared,
        Err(failure) => return Outcome::Refused(failure),
    };
    let source = End::new(fds.0, from, options.source_offset);
    let sink = End::new(fds.1, to, options.sink_offset);
    let observer: Option<crate::progress::Observer<'_>> = if options.observed {
        Some(Box::new(observe))
    } else {
        None
    };
    let inspector: Option<crate::route::Inspector<'_>> = if options.inspected {
        Some(Box::new(inspect))
    } else {
        None
    };
    let audience = Audience {
        observer,
        inspect: inspector,
        on_skip: Some(Box::new(on_skip)),
    };
    let engine = Engine::new(kernel, source, sink, plan, options, audience);
    Outcome::Ran(engine.going_on(begun).run())
}

/// The same, with nobody looking on.
fn transfer(
    kernel: &Scripted,
    (source, sink): (&OwnedFd, &OwnedFd),
    options: Options,
) -> Result<Report, Error> {
    let observe = |_: &Progress| ControlFlow::Continue(());
    match transfer_watched(kernel, (source, sink), options, observe, |_| {}) {
        Outcome::Ran(result) => result,
        Outcome::Refused(failure) => panic!("{failure:?}"),
    }
}

/// Every strategy that was tried, with the bytes it moved and the errno that ended it.
fn attempts(report: &Report) -> Vec<(Strategy, u64, Option<Errno>)> {
    let attempts = report.attempts().iter();
    attempts
        .map(|attempt| {
            let errno = attempt.error().and_then(|error| error.raw_os_error());
            let errno = errno.map(Errno::from_raw_os_error);
            (attempt.strategy(), attempt.bytes(), errno)
        })
        .collect()
}
