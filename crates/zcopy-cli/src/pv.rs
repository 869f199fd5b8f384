//! `zc-pv`: moves bytes, and shows how far they have come.
//!
//! One thread moves the bytes and keeps count; another draws. They share a meter, and what other processes may
//! change of the transfer.

pub use job::{MISUSE, run};
pub use options::Args;

pub mod bar;
pub mod format;
pub mod reading;
pub mod render;
pub mod rows;
pub mod screen;
pub mod signals;
pub mod text;
pub mod titles;
pub mod watch;

mod carrier;
mod changes;
mod device;
mod digest;
mod display;
mod ending;
mod extra;
mod face;
mod hook;
mod input;
mod instrument;
mod job;
mod json;
mod meter;
mod monitor;
mod objects;
mod options;
mod output;
mod output_pipe;
mod pidfile;
mod remote;
mod settings;
mod spool;
mod status;
mod stop;
mod witness;
