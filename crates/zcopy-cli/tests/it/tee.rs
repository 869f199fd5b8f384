//! `zc-tee`, beside every GNU tee there is.

mod operands;
mod options;

mod append;
mod descriptors;
mod modes;
mod own_input;
mod signals;

mod pauses;
mod readers;
mod terminal;

mod cache;
mod explain;
