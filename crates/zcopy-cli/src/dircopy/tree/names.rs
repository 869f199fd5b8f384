//! The names in one directory, in order.

use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::dircopy::listing;

/// The names in a directory, in the order of the paths beneath it: a directory is sorted as if `/` were part of its name.
///
/// A name takes its length and five or six bytes.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// All names. A `/` follows the name of a directory, and a zero byte follows each name.
    arena: Vec<u8>,
    /// The index of each name in the arena.
    order: Vec<u32>,
    next: usize,
}

impl Names {
    /// Reads a directory, and calls `is_directory` for each name. Returns all names that were read, and the error after them, if any.
    pub(super) fn read(
        directory: BorrowedFd<'_>,
        mut is_directory: impl FnMut(&CStr, FileType) -> bool,
    ) -> (Self, Result<(), Errno>) {
        let mut names = Self::default();
        let mut has_room = Ok(());
        let read = listing::each(directory, |name, kind| {
            let added = names.add(name, is_directory(name, kind));
            has_room = has_room.and(added);
        });
        names.sort();
        (names, read.and(has_room))
    }

    /// The memory that the names take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.arena.capacity() + self.order.capacity() * size_of::<u32>()
    }

    pub(super) fn add(&mut self, name: &CStr, is_directory: bool) -> Result<(), Errno> {
        let start = u32::try_from(self.arena.len()).map_err(|_| Errno::OVERFLOW)?;
        self.order.push(start);
        self.arena.extend_from_slice(name.to_bytes());
        if is_directory {
            self.arena.push(b'/');
        }
        self.arena.push(0);
        Ok(())
    }

    pub(super) fn sort(&mut self) {
        let Self { arena, order, .. } = self;
        let from = |start: u32| &arena[start as usize..];
        // A zero byte ends each name and sorts before all others, so that a comparison never passes the end of a name.
        order.sort_unstable_by(|a, b| from(*a).cmp(from(*b)));
        // A file that is renamed in the meantime may be read twice.
        order.dedup_by(|a, b| key(arena, *a) == key(arena, *b));
        arena.shrink_to_fit();
        order.shrink_to_fit();
    }
}

impl Iterator for Names {
    type Item = CString;

    fn next(&mut self) -> Option<CString> {
        let start = *self.order.get(self.next)?;
        self.next += 1;
        let key = key(&self.arena, start);
        let name = key.strip_suffix(b"/").unwrap_or(key);
        // A name has no zero byte.
        Some(CString::new(name).unwrap_or_default())
    }
}

/// The name that begins at `start`, with its `/`.
fn key(arena: &[u8], start: u32) -> &[u8] {
    let from = &arena[start as usize..];
    let end = memchr::memchr(0, from).unwrap_or(from.len());
    &from[..end]
}
