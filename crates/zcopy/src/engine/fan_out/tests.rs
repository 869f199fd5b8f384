//! The engine of fan-outs in the simulated kernel ([`crate::sim`]).
//!
//! [`properties`] runs random fan-outs with random faults; every other test has a script of its
//! own.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics fails"
)]

mod properties;
mod scenario;

mod backlog;
mod economy;
mod faults;
mod refusals;
mod waiting;
