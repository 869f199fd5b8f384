//! A simulated kernel for unit tests, which injects faults that a real kernel produces rarely.
//!
//! [`kernel`] holds the kernel, [`objects`] the files, pipes and sockets behind its descriptors,
//! [`script`] the injections, [`interference`] the calls of other processes on the same objects,
//! and [`shared`] the lock around all of it. [`scenario`] describes random transfers, [`arbitrary`]
//! generates them, and [`oracle`] checks their results. [`run`] is the harness that all unit tests
//! share, and [`task`] its part that runs them as tasks of tokio.

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
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod script;
pub(crate) mod shared;
#[cfg(feature = "tokio")]
mod task;
mod through_memory;

mod tests;

pub(crate) use kernel::SimKernel;
