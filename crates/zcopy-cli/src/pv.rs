//! `zc-pv`: copies, and shows how far it has come.

pub mod columns;
pub mod look;
pub mod signals;
pub mod tty;
