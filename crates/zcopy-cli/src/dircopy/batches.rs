//! Entries in batches: neighbours that one thread deals with, one after another.
//!
//! Threads that make files in one directory wait for each other in the kernel; with a directory to itself none does.

use std::iter::Peekable;
use std::sync::Arc;

use super::copier::Job;
use super::links::Links;
use super::lookup::Lookup;
use super::place::Durability;
use super::reading::size;
use super::tree::Entry;

/// How many entries a batch has at most.
const MOST: usize = 256;

/// How many bytes their files have at most, if there are several.
pub(super) const MOST_BYTES: u64 = 1 << 20;

/// The entries of a walk, in batches.
pub(super) struct Batches<'a, W: Iterator<Item = Entry>> {
    walk: Peekable<W>,
    links: Links,
    lookup: Lookup<'a>,
    /// How many entries a batch has at most.
    most: usize,
    /// What is longer comes alone.
    longest: u64,
}

impl<'a, W: Iterator<Item = Entry>> Batches<'a, W> {
    /// Those of files up to this size; what is longer comes alone.
    pub(super) fn new(walk: W, lookup: Lookup<'a>, longest: u64, durability: Durability) -> Self {
        Self {
            walk: walk.peekable(),
            links: Links::default(),
            lookup,
            // Threads that sync at the same time share what the disk writes.
            most: match durability {
                Durability::Cached => MOST,
                Durability::Synced => 1,
            },
            longest,
        }
    }
}

impl<W: Iterator<Item = Entry>> Batches<'_, W> {
    fn job(&mut self, entry: Entry) -> Job {
        let known = self.lookup.find(&entry);
        self.links.job(entry, known)
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
        while batch.len() < self.most && !is_long(&batch, longest) {
            let next = self.walk.next_if(|entry| {
                let is_neighbour = Arc::ptr_eq(entry.directory(), &directory);
                let size = size(entry.stat());
                is_neighbour && size <= longest && n_bytes.saturating_add(size) <= MOST_BYTES
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

/// Whether a batch is a file that is longer than this.
pub(super) fn is_long(batch: &[Job], longest: u64) -> bool {
    matches!(batch, [job] if size(job.entry.stat()) > longest)
}
