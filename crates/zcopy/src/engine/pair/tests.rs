//! The engine against a kernel that does on demand what a real one does rarely ([`crate::sim`]).
//!
//! In [`properties`] random transfers run into random faults; the other tests have a script each.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics fails"
)]

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use crate::Transfer;
use crate::error::Error;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{BadRange, Report};
use crate::sim::SimKernel;
pub(super) use crate::sim::{attempts, has_not_begun};

mod properties;

mod bad_blocks;
mod company;
mod direct;
mod drop_behind;
mod economy;
mod errnos;
mod fast_path;
mod holes;
mod pacing;
mod records;
mod stopping;
mod syncing;
mod terminals;
mod waiting;
mod whole_file;

/// Runs a transfer in the simulated kernel, shown to an observer and an inspector if the options have them.
fn transfer_watched(
    kernel: &SimKernel,
    ends: (&OwnedFd, &OwnedFd),
    options: Options,
    observe: impl FnMut(&Progress) -> ControlFlow<()>,
    inspect: impl FnMut(&[u8]),
) -> Result<Report, Error> {
    transfer_told(kernel, ends, options, (observe, inspect, |_: &BadRange| {}))
}

/// The same, with somebody who is told of bad blocks.
fn transfer_told(
    kernel: &SimKernel,
    (source, sink): (&OwnedFd, &OwnedFd),
    options: Options,
    (observe, inspect, on_skip): (
        impl FnMut(&Progress) -> ControlFlow<()>,
        impl FnMut(&[u8]),
        impl FnMut(&BadRange),
    ),
) -> Result<Report, Error> {
    let mut transfer = Transfer::new(source, sink)
        .with_options(options)
        .on_skip(on_skip);
    if options.observed {
        transfer = transfer.observe(observe);
    }
    if options.inspected {
        transfer = transfer.inspect(inspect);
    }
    transfer.run_with(kernel)
}

/// The same, with nobody looking on.
fn transfer(
    kernel: &SimKernel,
    (source, sink): (&OwnedFd, &OwnedFd),
    options: Options,
) -> Result<Report, Error> {
    let transfer = Transfer::new(source, sink).with_options(options);
    transfer.run_with(kernel)
}
