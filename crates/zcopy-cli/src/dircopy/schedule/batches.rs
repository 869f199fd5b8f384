//! Groups the entries of a walk into batches, each of one directory. One thread copies a batch.
//!
//! Threads that create files in the same directory wait for each other in the kernel.

use std::iter::Peekable;
use std::sync::Arc;

use super::hardlinks::HardLinks;
use super::lookup::Lookup;
use super::threads::Syncs;
use super::{Batch, Job};
use crate::dircopy::stat::size;
use crate::dircopy::walk::Entry;

/// The most entries of a batch.
const MAX_ENTRIES: usize = 256;

/// The most bytes of a batch of several files: 1 MiB.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// The entries of a walk, in batches.
pub(crate) struct Batches<'a, W: Iterator<Item = Entry>> {
    walk: Peekable<W>,
    links: HardLinks,
    lookup: Lookup<'a>,
    max_entries: usize,
    /// A longer file has a batch of its own.
    max_short: u64,
}

impl<'a, W: Iterator<Item = Entry>> Batches<'a, W> {
    /// Groups files of up to `max_short` bytes. A longer file has a batch of its own. So has every
    /// file that is [synced](Syncs) by itself: files that several threads sync at the same time
    /// share a commit of the journal.
    pub(crate) fn new(walk: W, lookup: Lookup<'a>, max_short: u64, syncs: Syncs) -> Self {
        Self {
            walk: walk.peekable(),
            links: HardLinks::default(),
            lookup,
            max_entries: match syncs {
                Syncs::None | Syncs::Together { .. } => MAX_ENTRIES,
                Syncs::Each => 1,
            },
            max_short,
        }
    }
}

impl<W: Iterator<Item = Entry>> Batches<'_, W> {
    fn job(&mut self, entry: Entry) -> Job {
        let prior = self.lookup.find(&entry);
        self.links.job(entry, prior)
    }
}

impl<W: Iterator<Item = Entry>> Iterator for Batches<'_, W> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let first = self.walk.next()?;
        let directory = Arc::clone(first.directory());
        let mut n_bytes = size(first.stat());
        let max_short = self.max_short;
        let mut batch = Batch {
            jobs: vec![self.job(first)],
            max_short,
        };
        while batch.jobs.len() < self.max_entries && !batch.is_long() {
            let next = self.walk.next_if(|entry| {
                let is_neighbour = Arc::ptr_eq(entry.directory(), &directory);
                let size = size(entry.stat());
                is_neighbour && size <= max_short && n_bytes.saturating_add(size) <= MAX_BYTES
            });
            let Some(entry) = next else {
                break;
            };
            n_bytes += size(entry.stat());
            batch.jobs.push(self.job(entry));
        }
        Some(batch)
    }
}
