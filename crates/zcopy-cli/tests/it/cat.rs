//! `zc-cat`, beside GNU cat.

mod operands;
mod options;

mod formats;
mod lines;
mod strict;

mod descriptors;
mod own_output;
mod signals;
mod terminal;

mod economy;
mod explain;
mod killed;
