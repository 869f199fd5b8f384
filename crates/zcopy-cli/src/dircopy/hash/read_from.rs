//! Where the bytes of a file come from, and reads past the page cache.

use std::fs::File;
use std::io;

use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags};

use super::reader::READ_SIZE;
use crate::dircopy::write::file_system::Storage;

/// Where the bytes of a file come from that is [read past the cache](super::reader::Reader::read_past_cache).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFrom {
    /// The disk, with `O_DIRECT`.
    Disk,
    /// The page cache, which has to read them first: it holds none of them.
    EmptiedCache,
    /// Memory, as far as is known: the file system has no disk, or the cache has kept pages.
    Memory,
    /// A server, a process or another file system, past the page cache of this one. What they have
    /// in memory is not known.
    Elsewhere,
}

impl ReadFrom {
    /// Examines a file of this size, before it is read. Its pages have been dropped if possible.
    pub(crate) fn of(file: &File, size: u64) -> Self {
        let storage = Storage::of(file);
        let is_direct = size >= READ_SIZE as u64 && set_direct(file).is_ok();
        let is_cached = || size > 0 && [0, size - 1].iter().any(|at| is_cached(file, *at));
        match storage {
            Storage::Memory => Self::Memory,
            _ if !is_direct && is_cached() => Self::Memory,
            Storage::Elsewhere => Self::Elsewhere,
            Storage::Disk if is_direct => Self::Disk,
            Storage::Disk => Self::EmptiedCache,
        }
    }
}

/// Lets reads pass by the page cache.
pub(crate) fn set_direct(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT)?)
}

/// Lets reads and writes use the page cache again.
pub(crate) fn clear_direct(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags - OFlags::DIRECT)?)
}

/// Whether a byte can be read without the disk. Where the file system does not tell, it may be.
fn is_cached(file: &File, at: u64) -> bool {
    let mut byte = [0];
    let mut bytes = [io::IoSliceMut::new(&mut byte)];
    let read = rustix::io::preadv2(file, &mut bytes, at, ReadWriteFlags::NOWAIT);
    read != Err(Errno::AGAIN)
}
