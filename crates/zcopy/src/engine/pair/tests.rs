//! The engine of pairs in the simulated kernel ([`crate::sim`]).
//!
//! [`properties`] runs random transfers with random faults; every other test has a script of its
//! own.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics fails"
)]

mod properties;

mod bad_blocks;
mod direct;
mod drop_behind;
mod economy;
mod errnos;
mod holes;
mod interference;
mod pacing;
mod records;
mod stopping;
mod syncing;
mod terminals;
mod waiting;
