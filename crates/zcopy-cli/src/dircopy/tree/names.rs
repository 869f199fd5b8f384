//! The names in one directory, in order.

use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::dircopy::listing;

/// The names in a directory, in the order in which the paths beneath it stand: a directory's as if `/` were part of its
/// name.
///
/// A million take little more than their letters and four bytes each.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Each name, a `/` behind that of a directory, and a zero byte.
    arena: Vec<u8>,
    /// Where they begin in the arena.
    order: Vec<u32>,
    next: usize,
}

impl Names {
    /// Reads a directory, and asks of each name whether it is a directory's. An error ends it, and what was read before
    /// is good.
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

    /// How much memory they take.
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
        // No two names agree beyond the zero byte at their ends, which comes before any other: so the ends need not be found.
        order.sort_unstable_by(|a, b| from(*a).cmp(from(*b)));
        // What is renamed meanwhile may be read twice.
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
        // There is no zero byte before its end.
        Some(CString::new(name).unwrap_or_default())
    }
}

/// The name that begins there, and its `/`.
fn key(arena: &[u8], start: u32) -> &[u8] {
    let from = &arena[start as usize..];
    let end = memchr::memchr(0, from).unwrap_or(from.len());
    &from[..end]
}
