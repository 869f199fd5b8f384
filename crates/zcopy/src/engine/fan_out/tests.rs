//! Fan-outs against a kernel that does on demand what a real one does rarely
//! ([`crate::sim`]).
//!
//! In [`properties`] random fan-outs run into random faults; the other tests have a script each.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics fails"
)]

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use crate::Transfer;
use crate::copy_state::Inspector;
use crate::error::Error;
use crate::options::{OnSinkError, Options};
use crate::progress::{Observer, Progress};
use crate::report::{Report, SinkReport};
use crate::sim::SimKernel;

mod properties;
mod scenario;

mod backlog;
mod economy;
mod faults;
mod refusals;
mod waiting;

/// Whoever looks on.
struct Attendants<'a> {
    observe: Observer<'a>,
    inspect: Inspector<'a>,
    decide: Box<dyn FnMut(&SinkReport) -> OnSinkError + 'a>,
}

/// Runs a fan-out in the simulated kernel, as `Transfer::run` does in the real one.
fn fan_out_attended(
    kernel: &SimKernel,
    (source, sinks): (&OwnedFd, &[OwnedFd]),
    options: Options,
    attendants: Attendants<'_>,
) -> Result<Report, Error> {
    kernel.state.borrow_mut().is_shared = true;
    let mut transfer = Transfer::new(source, &sinks[0])
        .with_options(options)
        .on_sink_error_with(attendants.decide);
    for sink in &sinks[1..] {
        transfer = transfer.also_to(sink);
    }
    if options.observed {
        transfer = transfer.observe(attendants.observe);
    }
    if options.inspected {
        transfer = transfer.inspect(attendants.inspect);
    }
    transfer.run_with(kernel)
}

/// The same, with nobody looking on.
fn fan_out(
    kernel: &SimKernel,
    ends: (&OwnedFd, &[OwnedFd]),
    options: Options,
    decision: OnSinkError,
) -> Result<Report, Error> {
    let attendants = Attendants {
        observe: Box::new(|_: &Progress| ControlFlow::Continue(())),
        inspect: Box::new(|_| {}),
        decide: Box::new(move |_| decision),
    };
    fan_out_attended(kernel, ends, options, attendants)
}
