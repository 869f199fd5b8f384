//! The tools `zc-*`: what one has to itself, and what they share.
//!
//! A program in `bin/` parses, builds, runs and reports, each by one line. Bytes are moved by
//! [`zcopy::Transfer`] and [`zcopy::Repeat`], and by nothing else.
//!
//! - [`cat`]: what `zc-cat` does.
//! - [`dircopy`]: what `zc-dircopy` does.
//! - [`pv`]: what `zc-pv` does.
//! - [`tee`]: what `zc-tee` does.
//! - [`yes`]: what `zc-yes` does.
//! - [`args`]: arguments, and usage errors as GNU words them.
//! - [`choice`]: words out of a list, as values of options.
//! - [`digest`]: digests of what passes, of many files at once.
//! - [`exit`]: error messages, signals, and how a tool ends.
//! - [`generate`]: manual pages and shell completions.
//! - [`history`]: what has been moved by when, and the rates that follow.
//! - [`look`]: what a terminal may be shown.
//! - [`number`]: amounts, rates and sizes.
//! - [`quote`]: names in messages, quoted as GNU quotes them.
//! - [`sys`]: what needs `unsafe`.
//! - [`time`]: durations and the time of day.
//! - [`tty`]: where a display goes.

pub mod cat;
pub mod dircopy;
pub mod pv;
pub mod tee;
pub mod yes;

pub mod args;
pub mod choice;
pub mod digest;
pub mod exit;
pub mod generate;
pub mod history;
pub mod look;
pub mod number;
pub mod quote;
pub mod time;
pub mod tty;

mod json;
mod order;
mod outlet;
mod own_output;
mod probe;
mod value;

pub mod sys;

// What is skipped, and how, is the same for all tests.
#[cfg(test)]
#[path = "../../zcopy/tests/it/skip.rs"]
mod skip;
