//! Sum files, as `sha256sum` and `b3sum` write them.
//!
//! - [`line`]: one line of a sum file.
//! - [`name`]: what sum files are called.

pub mod line;
pub mod name;

pub mod digest;
