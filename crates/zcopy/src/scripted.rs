//! A kernel that does on demand what a real one does rarely: for the tests of whatever makes calls.
//!
//! [`kernel`] is that kernel, [`objects`] what its descriptors stand for, and [`script`] its whims.
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
pub(crate) mod kernel;
pub(crate) mod objects;
mod polling;
pub(crate) mod script;
mod seam;

pub(crate) use kernel::Scripted;
