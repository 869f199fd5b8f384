//! Hashes files.
//!
//! - `reader`: reads a file and hashes it.
//! - `pool`: the hashing threads.

pub(crate) mod pool;
pub(crate) mod reader;
