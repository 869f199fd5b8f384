//! Divides a tree into jobs, and the descriptors of the process among the threads.

pub(crate) mod batches;
pub(crate) mod fd_budget;
pub(crate) mod hardlinks;
pub(crate) mod lookup;
pub(crate) mod semaphore;
