//! A kernel that does on demand what a real one does rarely: for the tests of whatever makes calls.
//!
//! [`kernel`] is that kernel, [`objects`] what its descriptors stand for, [`script`] its whims, and [`others`] what other
//! processes do to the same objects.
//! A random transfer takes place in a [`world`].

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics fails"
)]

pub(crate) mod draw;
pub(crate) mod world;

mod calls;
pub(crate) mod channel;
pub(crate) mod company;
pub(crate) mod kernel;
mod moving;
pub(crate) mod objects;
pub(crate) mod oracle;
pub(crate) mod others;
mod polling;
pub(crate) mod queue;
pub(crate) mod script;
mod seam;

mod tests;

pub(crate) use kernel::Scripted;
