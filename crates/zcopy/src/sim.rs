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

pub(crate) mod channel;
pub(crate) mod feasible;
mod in_kernel;
pub(crate) mod interference;
pub(crate) mod kernel;
mod kernel_impl;
pub(crate) mod objects;
pub(crate) mod oracle;
mod polling;
pub(crate) mod property;
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod script;
mod through_memory;

mod tests;

pub(crate) use kernel::SimKernel;
