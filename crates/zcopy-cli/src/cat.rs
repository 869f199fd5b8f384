//! `zc-cat`: concatenates files to standard output.

pub use args::Args;
pub use run::{Outcome, run};

pub mod format;
pub mod highlight;
pub mod lines;
pub mod timestamp;

mod args;
mod copy_error;
mod pipeline;
mod run;
mod strict;
