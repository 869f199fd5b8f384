//! Transfers on the real kernel: every pair of descriptors by every strategy, and every promise.
//!
//! A test that this machine cannot run says that it is skipped; with `ZCOPY_REQUIRE=all` a skip
//! fails. The simulated kernel in `src/sim.rs` gives EINTR, short counts and refusals that no real
//! kernel gives on demand.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that panics has failed, and says where"
)]

mod every_pair;

mod examples;

mod fan_out;

mod interference;

mod fuzz;

mod promises;

mod repeat;

mod filter;

mod faults;

mod bad_blocks;
mod bad_input;
mod positions;
mod prefix;

mod cache;
mod direct;
mod reflink;
mod series;
mod sparse;
mod sync_data;

mod ending;
mod relay;
mod session;
mod signals;

mod kernel_tls;
mod lowered_limit;
mod message_boundaries;
mod networks;
mod urgent_bytes;
mod warm_up;
mod without_private_pipe;

mod allocations;
mod buffer_and_pipe_sizes;
mod display;
mod elapsed;
mod inspect;
mod io_transfer;
mod rate_limiter;
mod records;
mod strategies_table;
mod syscall_counts;
mod traits;

#[cfg(target_pointer_width = "64")]
mod call_table;
mod child_process;
mod concurrency;
mod endpoints;
mod files;
mod fuse;
mod mounts;
mod options;
mod overlay;
mod own_process;
mod random;
mod refused;
mod refused_datagrams;
mod refused_memory;
mod resources;
mod skip;
mod strategies;
