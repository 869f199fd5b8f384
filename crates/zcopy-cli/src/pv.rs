//! What `zc-pv` shows: the pure half, without clocks, terminals or descriptors.
//!
//! - [`reading`]: all that a display shows at one moment.
//! - [`history`]: what has been moved by when; the rates, and the time left, that follow from it.
//! - [`number`], [`time`]: what a line is made of.

pub mod reading;

pub mod history;

pub mod number;
pub mod time;
