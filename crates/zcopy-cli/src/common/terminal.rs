//! Terminals: capabilities, escape sequences, and writes that do not block.

pub mod ansi;
pub mod capabilities;
pub(crate) mod frame;
pub(crate) mod sgr;
pub mod tty;
