//! The engine of filters in the simulated kernel ([`crate::sim`]).
//!
//! [`properties`] filters random sources with random faults; every other test has a script of its
//! own.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics fails"
)]

use std::os::fd::{AsFd, OwnedFd};

use super::FilterState;
use crate::error::Error;
use crate::filter::{Filter, Filtered, Input};
use crate::filter_transfer::FilterTransfer;
use crate::report::Report;
use crate::sim::SimKernel;

mod direct;
mod makers;
mod properties;
mod read_ahead;
mod resume;
mod waiting;

/// A borrowed filter.
type Asked<'a> = &'a mut dyn FnMut(Input<'_>, &mut [u8]) -> Filtered;

/// Filters one source in the simulated kernel, as `FilterTransfer::run` does in the real one.
fn run<R: Filter>(
    kernel: &SimKernel,
    (source, sink): (&OwnedFd, &OwnedFd),
    filter: &mut R,
    state: &mut FilterState,
) -> Result<Report, Error> {
    at_desk(sink, filter, state, |filter| {
        filter.run_with(kernel, source.as_fd())
    })
}

/// Ends the input, as `FilterTransfer::finish` does.
fn finish<R: Filter>(
    kernel: &SimKernel,
    sink: &OwnedFd,
    filter: &mut R,
    state: &mut FilterState,
) -> Result<Report, Error> {
    at_desk(sink, filter, state, |filter| filter.finish_with(kernel))
}

/// Calls `act` with a `FilterTransfer` that calls this filter and resumes from this state.
fn at_desk<R: Filter>(
    sink: &OwnedFd,
    filter: &mut R,
    state: &mut FilterState,
    act: impl FnOnce(&mut FilterTransfer<'_, Asked<'_>>) -> Result<Report, Error>,
) -> Result<Report, Error> {
    let mut ask = |input: Input<'_>, room: &mut [u8]| filter.filter(input, room);
    let mut filter = FilterTransfer::new(sink, &mut ask as Asked<'_>);
    std::mem::swap(&mut filter.state, state);
    let outcome = act(&mut filter);
    std::mem::swap(&mut filter.state, state);
    outcome
}
