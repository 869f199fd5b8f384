//! The loop against a kernel that does on demand what a real one does rarely ([`crate::scripted`]).
//!
//! In [`properties`] random sources are rewritten into random trouble; the other tests have a script each.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics fails"
)]

use std::os::fd::{AsFd, OwnedFd};

use super::Desk;
use crate::error::Error;
use crate::filter::{Input, Rewriter, Rewritten};
use crate::filter_transfer::Rewrite;
use crate::report::Report;
use crate::scripted::Scripted;

mod ahead;
mod direct;
mod going_on;
mod makers;
mod properties;
mod waiting;

/// A rewriter that is only borrowed.
type Asked<'a> = &'a mut dyn FnMut(Input<'_>, &mut [u8]) -> Rewritten;

/// Rewrites one source in the scripted kernel, as `Rewrite::run` does in the real one.
fn run<R: Rewriter>(
    kernel: &Scripted,
    (source, sink): (&OwnedFd, &OwnedFd),
    rewriter: &mut R,
    desk: &mut Desk,
) -> Result<Report, Error> {
    at_desk(sink, rewriter, desk, |rewrite| {
        rewrite.run_with(kernel, source.as_fd())
    })
}

/// Says that nothing more will come, as `Rewrite::finish` does.
fn finish<R: Rewriter>(
    kernel: &Scripted,
    sink: &OwnedFd,
    rewriter: &mut R,
    desk: &mut Desk,
) -> Result<Report, Error> {
    at_desk(sink, rewriter, desk, |rewrite| rewrite.finish_with(kernel))
}

/// Calls `act` with a `Rewrite` that asks this rewriter and goes on with this desk.
fn at_desk<R: Rewriter>(
    sink: &OwnedFd,
    rewriter: &mut R,
    desk: &mut Desk,
    act: impl FnOnce(&mut Rewrite<'_, Asked<'_>>) -> Result<Report, Error>,
) -> Result<Report, Error> {
    let mut ask = |input: Input<'_>, room: &mut [u8]| rewriter.rewrite(input, room);
    let mut rewrite = Rewrite::new(sink, &mut ask as Asked<'_>);
    std::mem::swap(&mut rewrite.desk, desk);
    let outcome = act(&mut rewrite);
    std::mem::swap(&mut rewrite.desk, desk);
    outcome
}
