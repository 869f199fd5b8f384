//! Formats for amounts, durations, rates and JSON, and the computation of rates.

pub mod clock;
pub mod duration;
pub mod throughput;
pub mod units;

pub(crate) mod json;
