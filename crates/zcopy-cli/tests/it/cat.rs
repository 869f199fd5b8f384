//! `zc-cat`, beside GNU cat.

mod operands;
mod options;

mod descriptors;
mod own_output;
mod signals;
mod terminal;

mod economy;
mod explain;
