//! A kernel that does on demand what a real one does rarely: for the tests of whatever makes calls.
//!
//! [`kernel`] is that kernel, [`objects`] what its descriptors stand for, [`script`] its whims, and [`others`] what other
//! processes do to the same objects.
//! A random transfer takes place in a [`scenario`].

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics fails"
)]

pub(crate) mod arbitrary;
pub(crate) mod scenario;

mod calls;
pub(crate) mod channel;
pub(crate) mod company;
pub(crate) mod kernel;
mod kernel_impl;
mod moving;
pub(crate) mod objects;
pub(crate) mod oracle;
pub(crate) mod others;
mod polling;
pub(crate) mod property;
pub(crate) mod queue;
pub(crate) mod script;

mod tests;

pub(crate) use kernel::SimKernel;

use crate::error::Error;
use crate::report::Report;
use crate::strategy::Strategy;
use crate::sys::Errno;

/// Whether a transfer was refused before anything was tried.
pub(crate) fn has_not_begun(error: &Error) -> bool {
    (error.is_refused() || error.is_unsuitable()) && error.report().attempts().is_empty()
}

/// Every strategy that was tried, with the bytes it moved and the errno that ended it.
pub(crate) fn attempts(report: &Report) -> Vec<(Strategy, u64, Option<Errno>)> {
    let attempts = report.attempts().iter();
    attempts
        .map(|attempt| {
            let errno = attempt.error().and_then(|error| error.raw_os_error());
            let errno = errno.map(Errno::from_raw_os_error);
            (attempt.strategy(), attempt.bytes(), errno)
        })
        .collect()
}
