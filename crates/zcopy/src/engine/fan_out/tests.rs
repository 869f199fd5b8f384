//! Fan-outs against a kernel that does on demand what a real one does rarely
//! ([`crate::sim`]).
//!
//! In [`properties`] random fan-outs run into random faults; the other tests have a script each.

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
