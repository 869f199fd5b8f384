//! Divides a tree into jobs, and the descriptors of the process among the threads.
//!
//! - `batches`: groups entries into batches; `hardlinks`: finds the names of a file.
//! - `lead`: keeps the runs of several destinations close together.
//! - `lookup`: finds what earlier runs recorded of an entry.
//! - `threads`: the number of threads and the sizes of batches.
//! - `fd_budget`: the descriptors that each part may open; `semaphore`: limits the threads that
//!   create short files.

use std::io;

use super::stat::{Identity, size};
use super::walk::Entry;
use lookup::PriorRecord;

pub(super) mod batches;
pub(super) mod fd_budget;
pub(super) mod hardlinks;
pub(super) mod lead;
pub(super) mod lookup;
pub(super) mod semaphore;
pub(super) mod threads;

/// An entry to copy.
pub(crate) struct Job {
    pub(crate) entry: Entry,
    pub(crate) role: Role,
    /// An error, if the manifests could not be read.
    pub(crate) prior: io::Result<PriorRecord>,
}

/// Which of the names of its file an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The only name, or one that is copied by itself.
    Only,
    /// The first name that the walk gives. It is copied.
    First {
        file: Identity,
        /// The number of its additional names.
        n_more: u64,
    },
    /// Another name. It becomes a link to the copy of the first.
    Additional { file: Identity },
}

/// Entries of one directory, which one thread copies. A long file has a batch of its own.
pub(crate) struct Batch {
    pub(crate) jobs: Vec<Job>,
    /// A longer file has a batch of its own.
    max_short: u64,
}

impl Batch {
    /// Whether the batch is one long file.
    pub(crate) fn is_long(&self) -> bool {
        matches!(&self.jobs[..], [job] if size(job.entry.stat()) > self.max_short)
    }
}
