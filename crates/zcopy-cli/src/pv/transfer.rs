//! Transfers: inputs, the output, the spool, and the inspection of bytes.

pub(super) mod block_device;
pub(super) mod digest;
pub(super) mod input;
pub(super) mod inspector;
pub(super) mod output;
pub(super) mod output_pipe;
pub(super) mod pidfile;
pub(super) mod spool;

mod copier;

pub(super) use copier::{Copier, Limit, is_same_file};
