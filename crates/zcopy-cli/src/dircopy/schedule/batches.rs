//! Groups the entries of a walk into batches, each of one directory. One thread copies a batch.
//!
//! Threads that create files in the same directory wait for each other in the kernel.

use std::iter::Peekable;
use std::sync::Arc;

use super::hardlinks::HardLinks;
use super::lookup::Lookup;
use crate::dircopy::copy::Job;
use crate::dircopy::hash::reader::size;
use crate::dircopy::walk::Entry;
use crate::dircopy::write::atomic_file::Durability;

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
    longest: u64,
}

impl<'a, W: Iterator<Item = Entry>> Batches<'a, W> {
    /// Groups files of up to `longest` bytes. A longer file has a batch of its own.
    pub(crate) fn new(walk: W, lookup: Lookup<'a>, longest: u64, durability: Durability) -> Self {
        Self {
            walk: walk.peekable(),
            links: HardLinks::default(),
            lookup,
            // Files that several threads sync at the same time share a commit of the journal.
            max_entries: match durability {
                Durability::Cached => MAX_ENTRIES,
                Durability::Synced => 1,
            },
            longest,
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
    type Item = Vec<Job>;

    fn next(&mut self) -> Option<Vec<Job>> {
        let first = self.walk.next()?;
        let directory = Arc::clone(first.directory());
        let mut n_bytes = size(first.stat());
        let mut batch = vec![self.job(first)];
        let longest = self.longest;
        while batch.len() < self.max_entries && !is_long(&batch, longest) {
            let next = self.walk.next_if(|entry| {
                let is_neighbour = Arc::ptr_eq(entry.directory(), &directory);
                let size = size(entry.stat());
                is_neighbour && size <= longest && n_bytes.saturating_add(size) <= MAX_BYTES
            });
            let Some(entry) = next else {
                break;
            };
            n_bytes += size(entry.stat());
            batch.push(self.job(entry));
        }
        Some(batch)
    }
}

/// Whether a batch is one file of more than `longest` bytes.
pub(crate) fn is_long(batch: &[Job], longest: u64) -> bool {
    matches!(batch, [job] if size(job.entry.stat()) > longest)
}
