//! Code that several tools share.

pub mod cli;
pub mod digest;
pub mod progress;
pub mod sys;
pub mod terminal;

pub(crate) mod io;
pub(crate) mod parallel;
pub(crate) mod threads;
