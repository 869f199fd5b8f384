//! The tools `zc-*`: the modules of each tool, and the modules that they share.
//!
//! A program in `bin/` parses, builds, runs and reports, each by one line. Only
//! [`zcopy::Transfer`], [`zcopy::Repeat`] and their kin move bytes.
//!
//! - [`cat`], [`dircopy`], [`pv`], [`tee`], [`yes`]: one tool each.
//! - [`common`]: command lines, messages, system calls, terminals, progress and digests.

pub mod cat;
pub mod dircopy;
pub mod pv;
pub mod tee;
pub mod yes;

pub mod common;

// What is skipped, and how, is the same for all tests.
#[cfg(test)]
#[path = "../../zcopy/tests/it/skip.rs"]
mod skip;
