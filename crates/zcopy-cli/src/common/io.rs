//! Output descriptors, and properties of inputs and outputs.

pub(crate) mod fd_writer;
pub(crate) mod probe;
pub(crate) mod same_file;
