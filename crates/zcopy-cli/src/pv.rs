//! `zc-pv`: copies bytes and shows the progress.
//!
//! One thread copies the bytes and counts them, and another one draws. They share a
//! `SharedProgress`, and the settings that other processes may change during the transfer.

pub use args::Args;
pub use run::{MISUSE, run};

pub mod display;
pub mod watch;

mod args;
mod cleanup;
mod ending;
mod monitor;
mod prepare;
mod refusal;
mod remote;
mod run;
mod settings;
mod shared_progress;
mod status;
mod stop;
mod transfer;
