//! The engine against a kernel that does on demand what a real one does rarely ([`crate::sim`]).
//!
//! In [`properties`] random transfers run into random faults; the other tests have a script each.

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
