//! Command lines, option values, quoting and messages.

pub mod args;
pub mod generate;
pub mod keyword;
pub mod message;
pub mod quote;

pub(crate) mod value;
