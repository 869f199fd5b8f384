//! Fan-outs against a kernel that does on demand what a real one does rarely
//! ([`crate::scripted`]).
//!
//! In [`properties`] random fan-outs run into random trouble; the other tests have a script each.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics fails"
)]

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{Fanout, prepare};
use crate::end::End;
use crate::error::Error;
use crate::options::{OnSinkError, Options, SinkPolicy};
use crate::progress::{Observer, Progress};
use crate::report::{Report, SinkReport};
use crate::route::Inspector;
use crate::scripted::Scripted;

mod properties;
mod world;

mod economy;
mod faults;
mod hub;
mod refusals;
mod waiting;

/// What came of a fan-out. An error of `None` is one that was not even begun.
type Outcome = Result<Report, Option<Error>>;

/// Whoever looks on.
struct Attendants<'a> {
    observe: Observer<'a>,
    inspect: Inspector<'a>,
    decide: Box<dyn FnMut(&SinkReport) -> OnSinkError + 'a>,
}

/// Runs a fan-out in the scripted kernel, as `Transfer::run` does in the real one.
fn fan_out_attended(
    kernel: &Scripted,
    (source, sinks): (&OwnedFd, &[OwnedFd]),
    options: Options,
    attendants: Attendants<'_>,
) -> Outcome {
    kernel.state.borrow_mut().is_shared = true;
    let fds: Vec<BorrowedFd<'_>> = sinks.iter().map(AsFd::as_fd).collect();
    let prepared = prepare(&kernel, source.as_fd(), &fds, &options);
    let (from, to, plan) = prepared.map_err(|_| None)?;
    let source = End::new(source.as_fd(), from, options.source_offset);
    let offsets = std::iter::once(options.sink_offset).chain(std::iter::repeat(None));
    let ends = fds.iter().zip(to).zip(offsets);
    let ends: Vec<_> = ends
        .map(|((fd, endpoint), offset)| End::new(*fd, endpoint, offset))
        .collect();
    let attendants = (
        options.observed.then_some(attendants.observe),
        options.inspected.then_some(attendants.inspect),
        SinkPolicy::Ask(attendants.decide),
    );
    let fanout = Fanout::new(kernel, source, ends, plan, options, attendants);
    fanout.run().map_err(Some)
}

/// The same, with nobody looking on.
fn fan_out(
    kernel: &Scripted,
    ends: (&OwnedFd, &[OwnedFd]),
    options: Options,
    decision: OnSinkError,
) -> Result<Report, Error> {
    let attendants = Attendants {
        observe: Box::new(|_: &Progress| ControlFlow::Continue(())),
        inspect: Box::new(|_| {}),
        decide: Box::new(move |_| decision),
    };
    let outcome = fan_out_attended(kernel, ends, options, attendants);
    outcome.map_err(|error| error.expect("nothing is refused"))
}
