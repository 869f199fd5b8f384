//! Names in memory.

use std::ffi::CStr;

/// Names in memory, in the order of the paths beneath them once they are sorted.
///
/// A name takes its length and five or six bytes.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// The keys of all names, each with a zero byte behind it.
    arena: Vec<u8>,
    /// The index of each key in the arena.
    order: Vec<u32>,
    next: usize,
}

impl Run {
    /// Adds a name. A run must not have 4 GiB of names.
    pub(super) fn add(&mut self, name: &CStr, is_directory: bool) {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the caller has fewer bytes"
        )]
        self.order.push(self.arena.len() as u32);
        self.arena.extend_from_slice(name.to_bytes());
        if is_directory {
            self.arena.push(b'/');
        }
        self.arena.push(0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The memory that the names take.
    pub(super) fn bytes(&self) -> usize {
        self.arena.len() + self.order.len() * size_of::<u32>()
    }

    /// The memory that the run has reserved.
    #[cfg(test)]
    pub(super) fn reserved(&self) -> usize {
        self.arena.capacity() + self.order.capacity() * size_of::<u32>()
    }

    /// Sorts the names.
    pub(super) fn sort(&mut self) {
        let Self { arena, order, .. } = self;
        let from = |start: u32| &arena[start as usize..];
        // A zero byte ends each name and sorts before all others, so that a comparison never passes
        // the end of a name.
        order.sort_unstable_by(|a, b| from(*a).cmp(from(*b)));
        // A file that is renamed in the meantime may be read twice.
        order.dedup_by(|a, b| key(arena, *a) == key(arena, *b));
    }

    /// Gives memory back that the names do not need.
    pub(super) fn shrink(&mut self) {
        self.arena.shrink_to_fit();
        self.order.shrink_to_fit();
    }

    /// Drops all names, and keeps the memory for others.
    pub(super) fn clear(&mut self) {
        self.arena.clear();
        self.order.clear();
        self.next = 0;
    }

    /// The keys of all names.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.order.iter().map(|start| key(&self.arena, *start))
    }

    /// The key of the next name: the name, and a `/` if it is a directory's.
    pub(super) fn next_key(&mut self) -> Option<&[u8]> {
        let start = *self.order.get(self.next)?;
        self.next += 1;
        Some(key(&self.arena, start))
    }
}

/// The key that begins at `start`.
fn key(arena: &[u8], start: u32) -> &[u8] {
    let from = &arena[start as usize..];
    let end = memchr::memchr(0, from).unwrap_or(from.len());
    &from[..end]
}
