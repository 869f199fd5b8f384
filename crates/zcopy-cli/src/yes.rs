//! `zc-yes`: repeats a line for ever.

pub use args::Args;
pub use run::run;

mod args;
mod run;
