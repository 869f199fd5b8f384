//! Transfers and relays in tasks of tokio, on the real kernel.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that panics has failed, and says where"
)]

mod ending;
mod ends;
mod fan_out;
mod files;
mod interrupted;
mod networks;
mod relay;
mod relay_tokio;
mod urgent_bytes;

#[path = "../it/own_process.rs"]
mod own_process;
#[path = "../it/random.rs"]
#[expect(dead_code, reason = "no test of these picks one of several values")]
mod random;
#[path = "../it/resources.rs"]
mod resources;
#[path = "../it/skip.rs"]
mod skip;
mod support;
