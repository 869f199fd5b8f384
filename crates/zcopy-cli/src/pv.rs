//! `zc-pv`: moves bytes, and shows how far they have come.
//!
//! One thread moves the bytes and keeps count; another draws. They share a meter and nothing else.

pub use job::run;
pub use options::Args;

pub mod columns;
pub mod look;
pub mod rows;
pub mod screen;
pub mod signals;
pub mod titles;
pub mod tty;

mod carrier;
mod digest;
mod display;
mod extra;
mod face;
mod hook;
mod input;
mod job;
mod json;
mod meter;
mod options;
mod output;
mod pidfile;
mod settings;
mod spool;
mod status;
mod witness;
