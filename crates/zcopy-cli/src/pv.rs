//! What `zc-pv` shows: the pure half, without clocks, terminals or descriptors.
//!
//! - [`reading`]: all that a display shows at one moment.
//! - [`history`]: what has been moved by when; the rates, and the time left, that follow from it.
//! - [`format`](mod@format): what a line consists of.
//! - [`render`](mod@render): one line, from a format and a reading.
//! - [`bar`], [`number`], [`time`], [`text`]: what a line is made of.

pub mod reading;

pub mod history;

pub mod format;
pub mod render;

pub mod bar;
pub mod number;
pub mod text;
pub mod time;
