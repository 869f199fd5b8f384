//! Sum files, as `sha256sum` and `b3sum` write them, and how trees are verified against them.
//!
//! - [`line`](mod@line): one line of a sum file.
//! - [`name`]: what sum files are called.
//! - [`check`]: verifies trees against sum files.

pub mod check;
pub mod line;
pub mod name;

mod lines;
mod tally;

mod beneath;
