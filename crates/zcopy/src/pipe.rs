//! Pipes: the private one between two ends, and the size of the caller's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::{Blocking, Errno, Kernel, Result, SpliceFlags, retried};

/// What is asked for, and what an unprivileged user may have (`/proc/sys/fs/pipe-max-size`).
pub(crate) const WANTED: usize = 1 << 20;

/// The kernel's default size of a pipe, and the smallest size that is worth having: below it, read and write are faster.
/// A user over the budget (`/proc/sys/fs/pipe-user-pages-soft`) is given pipes of one or two pages.
pub(crate) const DEFAULT_CAPACITY: usize = 64 << 10;

/// The most that a packet of a pipe may hold, in bytes. A packet is one slot of a pipe, which is one page, and this
/// is the largest page of such machines. [`Kernel::page_size`] is exact, and may take a call.
pub(crate) const LARGEST_PACKET: usize = if cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
    4096
} else {
    64 << 10
};

/// The private pipe of one transfer.
///
/// It is filled only when it is empty: then a fill that fails is the source's doing, and a drain
/// that fails the sink's. It is closed with the transfer and never passed on, so that nothing left
/// in it can reach another one.
#[derive(Debug)]
pub(crate) struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    /// Bytes that it is given at once: those that fit if every slot holds a full page, and no more than were
    /// wanted.
    pub(crate) capacity: usize,
    /// Whether splices through it pay: the kernel has made it no smaller than its default.
    pub(crate) is_worth_having: bool,
    /// Bytes that came from the source and are not yet in the sink.
    pub(crate) in_flight: u64,
}

impl Pipe {
    /// Opens a pipe for `wanted` bytes, or as many as the user's budget allows.
    ///
    /// # Errors
    ///
    /// `EMFILE` or `ENFILE` when there is no descriptor to be had, `ENOBUFS` when the budget leaves
    /// less than the 64 KiB that make a pipe worth its calls.
    pub(crate) fn open<K: Kernel>(kernel: &K, wanted: usize) -> Result<Self> {
        let pipe = Self::open_of_any_size(kernel, wanted)?;
        if pipe.is_worth_having {
            Ok(pipe)
        } else {
            Err(Errno::NOBUFS)
        }
    }

    /// The same, however little the user's budget leaves: a page at least.
    ///
    /// # Errors
    ///
    /// `EMFILE` or `ENFILE` when there is no descriptor to be had.
    pub(crate) fn open_of_any_size<K: Kernel>(kernel: &K, wanted: usize) -> Result<Self> {
        let (reader, writer) = kernel.pipe()?;
        let capacity = match grow(kernel, writer.as_fd(), wanted) {
            Some(granted) => granted,
            None => kernel.pipe_capacity(writer.as_fd())?,
        };
        Ok(Self {
            reader,
            writer,
            capacity: capacity.min(wanted),
            is_worth_having: capacity >= DEFAULT_CAPACITY,
            in_flight: 0,
        })
    }

    /// Takes out everything that is in flight.
    pub(crate) fn contents<K: Kernel>(&mut self, kernel: &K) -> Vec<u8> {
        let mut bytes = vec![0; self.in_flight as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            // It holds them, so that the read neither sleeps nor fails.
            let room = &mut bytes[filled..];
            match retried(|| kernel.read(self.reader(), None, room, Blocking::MaySleep)) {
                Ok(0) | Err(_) => break,
                Ok(n) => filled += n,
            }
        }
        bytes.truncate(filled);
        self.in_flight = 0;
        bytes
    }

    pub(crate) fn reader(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    pub(crate) fn writer(&self) -> BorrowedFd<'_> {
        self.writer.as_fd()
    }
}

/// What a read of one byte would say of a pipe. Nothing is taken.
///
/// A FIFO that is opened for reading in non-blocking mode, and never was for writing, polls as if its writer were to be
/// waited for. `tee(2)` tells.
///
/// # Errors
///
/// `EAGAIN` if it is empty, and may yet be written to. Any other errno says that the pipe could not be asked.
pub(crate) fn peek<K: Kernel>(kernel: &K, pipe: BorrowedFd<'_>) -> Result<usize> {
    let (_reader, writer) = kernel.pipe()?;
    retried(|| kernel.tee(pipe, writer.as_fd(), 1, SpliceFlags::NONBLOCK))
}

/// Enlarges a pipe to `wanted` bytes or as near as the user's budget allows, and returns the new capacity
/// in bytes.
///
/// `None` if it was no smaller already, or may not grow. It never shrinks.
pub(crate) fn grow<K: Kernel>(
    kernel: &K,
    pipe: BorrowedFd<'_>,
    mut wanted: usize,
) -> Option<usize> {
    let current = kernel.pipe_capacity(pipe).ok()?;
    while wanted > current {
        match kernel.set_pipe_capacity(pipe, wanted) {
            Ok(granted) => return Some(granted),
            // Over `pipe-max-size` or over the user's pages: a smaller one may still be allowed.
            Err(Errno::PERM | Errno::NOMEM) => wanted /= 2,
            Err(_) => return None,
        }
    }
    None
}
