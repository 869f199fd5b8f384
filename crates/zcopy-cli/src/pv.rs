//! `zc-pv`: copies, and shows how far it has come.

pub mod columns;
pub mod look;
pub mod rows;
pub mod screen;
pub mod signals;
pub mod titles;
pub mod tty;
