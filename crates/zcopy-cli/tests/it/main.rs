//! The tools, run as a user runs them, and compared with the programs they stand in for.
//!
//! What this machine cannot do is skipped aloud; with `ZCOPY_REQUIRE=all` a skip fails.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that panics has failed, and says where"
)]

mod cat;
mod dircopy;
mod display;
mod failing_calls;
mod foreground;
mod gnu_conventions;
mod interference;
mod packets;
mod pv_display;
mod pv_monitor;
mod pv_remote;
mod pv_transfer;
mod pv_watch;
mod pv_words;
mod refused_memory;
mod rows;
mod several;
mod sums;
mod tee;
mod yes;

mod completion;
mod examples;
mod generated;
mod help;
mod manual;

mod child;
mod interactive;
mod passthrough_fs;
mod peer;
mod pty;
mod screen;
mod script;
mod tools;

// What is skipped, and how, is the same for both crates.
#[allow(dead_code, reason = "the library's tests need more of it")]
#[path = "../../../zcopy/tests/it/skip.rs"]
mod skip;

#[allow(dead_code, reason = "the library's tests need more of it")]
#[path = "../../../zcopy/tests/it/refused.rs"]
mod refused;

#[allow(dead_code, reason = "the library's tests need more of it")]
#[path = "../../../zcopy/tests/it/bad_blocks/disk.rs"]
mod bad_disk;
#[allow(dead_code, reason = "the library's tests need more of it")]
#[path = "../../../zcopy/tests/it/files.rs"]
mod files;
#[allow(dead_code, reason = "the library's tests need more of it")]
#[path = "../../../zcopy/tests/it/mounts.rs"]
mod mounts;
#[allow(dead_code, reason = "the library's tests need more of it")]
#[path = "../../../zcopy/tests/it/interference/numbered_records.rs"]
mod numbered;
#[allow(dead_code, reason = "the library's tests need more of it")]
#[path = "../../../zcopy/tests/it/concurrency.rs"]
mod scene;
