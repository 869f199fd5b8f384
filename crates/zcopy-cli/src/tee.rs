//! `zc-tee`: copies standard input to files and to standard output.

pub use args::{Args, Pages};
pub use mode::Mode;
pub use run::{Outcome, run};

mod args;
mod error_policy;
mod mode;
mod output;
mod run;
