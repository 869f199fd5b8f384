//! The loop against a kernel that does on demand what a real one does rarely ([`crate::scripted`]).
//!
//! In [`properties`] random sources are rewritten into random trouble; the other tests have a script each.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics fails"
)]

use std::os::fd::{AsFd, OwnedFd};

use super::course::{Course, Desk};
use super::{Rewriter, prepare};
use crate::end::End;
use crate::error::Error;
use crate::report::Report;
use crate::scripted::Scripted;

mod ahead;
mod direct;
mod going_on;
mod makers;
mod properties;
mod waiting;

/// Rewrites one source in the scripted kernel, as `Rewrite::run` does in the real one.
fn run<R: Rewriter>(
    kernel: &Scripted,
    (source, sink): (&OwnedFd, &OwnedFd),
    rewriter: &mut R,
    desk: &mut Desk,
) -> Result<Report, Error> {
    let (source, sink) = (source.as_fd(), sink.as_fd());
    let (from, to) = prepare(&kernel, source, sink).unwrap();
    let (from, to) = (End::new(source, from, None), End::new(sink, to, None));
    Course::new(kernel, to, rewriter, desk).run(from, None)
}

/// Says that nothing more will come, as `Rewrite::finish` does.
fn finish<R: Rewriter>(
    kernel: &Scripted,
    sink: &OwnedFd,
    rewriter: &mut R,
    desk: &mut Desk,
) -> Result<Report, Error> {
    let fd = sink.as_fd();
    let to = crate::endpoint::Endpoint::of(&kernel, fd).unwrap();
    Course::new(kernel, End::new(fd, to, None), rewriter, desk).finish()
}
