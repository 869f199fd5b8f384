//! The trait of the system calls that this crate makes, and the types of their arguments and
//! results.
//!
//! Every method makes one system call and does not retry it: an interrupted call returns
//! [`Errno::INTR`], and the caller decides.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use super::spare::Spare;
use crate::side::Side;

pub(crate) use rustix::event::{PollFd, PollFlags};
pub(crate) use rustix::fs::{FileType, OFlags, SealFlags, SeekFrom};
pub(crate) use rustix::io::Errno;
pub(crate) use rustix::net::SocketType;
pub(crate) use rustix::pipe::SpliceFlags;

/// The result of one call.
pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// Repeats a call while it returns `EINTR`.
pub(crate) fn retried<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}

/// The memory into which [`Kernel::discard`] reads, in bytes. It fits into a first-level cache.
pub(super) const DISCARD_ROOM: usize = 16 << 10;

/// The most buffers that one [`Kernel::discard`] passes to the kernel.
pub(super) const MAX_BUFFERS: usize = 65;

/// The most bytes that one [`Kernel::discard`] drops: more than 1 MiB.
pub(crate) const LONGEST_DISCARD: usize = MAX_BUFFERS * DISCARD_ROOM;

/// Appends up to `len` bytes with `read`, which receives the number of bytes so far and memory for
/// the rest. Appends fewer if a read returns 0 or fails, or if the allocator refuses memory for all.
/// Returns the number of bytes that it has appended.
pub(crate) fn read_up_to(
    mut len: usize,
    bytes: &mut Vec<u8>,
    mut read: impl FnMut(usize, &mut [u8]) -> Result<usize>,
) -> usize {
    while bytes.try_reserve_exact(len).is_err() {
        len /= 2;
    }
    let start = bytes.len();
    bytes.resize(start + len, 0);
    let mut filled = 0;
    while filled < len {
        match retried(|| read(filled, &mut bytes[start + filled..])) {
            Ok(0) | Err(_) => break,
            Ok(n) => filled += n,
        }
    }
    bytes.truncate(start + filled);
    filled
}

/// The fields of `fstat(2)` that this crate needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    pub(crate) file_type: FileType,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// The device that a device node names: `st_rdev`.
    pub(crate) names_device: u64,
    /// The size in bytes: `st_size`.
    pub(crate) size: u64,
    /// The allocated bytes: `st_blocks`, which counts 512 bytes each.
    pub(crate) allocated: u64,
}

/// The fields of `fstatfs(2)` that this crate needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSystemStatus {
    /// The file system's number: `f_type`.
    pub(crate) magic: u64,
    /// The block size in bytes: `f_bsize`.
    pub(crate) block_size: u64,
    /// The bytes that an unprivileged user may still write: `f_bavail` blocks. `None` if the file
    /// system has no size.
    pub(crate) free: Option<u64>,
}

/// Whether a call may sleep on a descriptor in blocking mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocking {
    /// The call may sleep.
    MaySleep,
    /// The call must not sleep (`RWF_NOWAIT`, `MSG_DONTWAIT`, `SPLICE_F_NONBLOCK`).
    Nonblocking,
}

/// Whether `sync_file_range(2)` waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOut {
    /// Start to write the dirty pages.
    Start,
    /// Write the dirty pages, and wait until they are clean.
    Finish,
}

/// A descriptor and the offset that a call names: `None` for the descriptor's cursor.
pub(crate) type FdAt<'fd> = (BorrowedFd<'fd>, Option<u64>);

/// The system calls of this crate.
///
/// A call with the offset `None` uses the descriptor's cursor and advances it.
pub(crate) trait Kernel {
    // Descriptors.

    /// Returns type, identity and size of the file: `fstat(2)`.
    fn fstat(&self, fd: BorrowedFd<'_>) -> Result<Status>;
    /// Returns `st_size` of `fstat(2)`: the size of a file in bytes.
    fn file_size(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        self.fstat(fd).map(|status| status.size)
    }
    /// Returns the access mode and the status flags: `fcntl(F_GETFL)`.
    fn status_flags(&self, fd: BorrowedFd<'_>) -> Result<OFlags>;
    /// Returns whether the socket has a stream, datagrams or packets: `getsockopt(SO_TYPE)`.
    fn socket_type(&self, fd: BorrowedFd<'_>) -> Result<SocketType>;
    /// Returns whether the socket listens for connections: `getsockopt(SO_ACCEPTCONN)`.
    fn is_listening(&self, fd: BorrowedFd<'_>) -> Result<bool>;
    /// Returns type, block size and free bytes of the file system: `fstatfs(2)`.
    fn file_system(&self, fd: BorrowedFd<'_>) -> Result<FileSystemStatus>;
    /// Returns the size of the block device in bytes: `ioctl(BLKGETSIZE64)`.
    fn device_size(&self, fd: BorrowedFd<'_>) -> Result<u64>;
    /// Returns the block size of the device's page cache in bytes: `ioctl(BLKBSZGET)`.
    fn device_block_size(&self, fd: BorrowedFd<'_>) -> Result<u64>;
    /// Returns the seals of the memfd: `fcntl(F_GET_SEALS)`.
    fn seals(&self, fd: BorrowedFd<'_>) -> Result<SealFlags>;
    /// Returns the alignment of offsets for `O_DIRECT`, 0 if unknown: `statx(STATX_DIOALIGN)`.
    fn direct_alignment(&self, fd: BorrowedFd<'_>) -> Result<u64>;
    /// Returns the size of the socket's send buffer in bytes: `getsockopt(SO_SNDBUF)`.
    fn send_buffer_size(&self, fd: BorrowedFd<'_>) -> Result<usize>;
    /// Opens the same file again in non-blocking mode: `open(2)` of `/proc/self/fd/N`.
    fn reopen(&self, fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd>;
    /// Closes the descriptor, also if it returns an error: `close(2)`.
    fn close(&self, fd: OwnedFd) -> Result<()>;
    /// Returns the time-out of a side: `getsockopt(SO_RCVTIMEO)` or `getsockopt(SO_SNDTIMEO)`.
    fn socket_timeout(&self, fd: BorrowedFd<'_>, side: Side) -> Result<Option<Duration>>;
    /// Returns the pending error of the socket and clears it: `getsockopt(SO_ERROR)`.
    fn socket_error(&self, fd: BorrowedFd<'_>) -> Result<Option<Errno>>;
    /// Fails with `EINVAL` if the file has no read operation: `readv(2)` without buffers.
    fn read_nothing(&self, fd: BorrowedFd<'_>) -> Result<()>;
    /// Fails with `EINVAL` if the file has no write operation: `writev(2)` without buffers.
    fn write_nothing(&self, fd: BorrowedFd<'_>) -> Result<()>;

    // Moving bytes.

    /// Reads bytes: `read(2)`, `pread(2)` at an offset, or `preadv2(RWF_NOWAIT)`.
    fn read(
        &self,
        fd: BorrowedFd<'_>,
        offset: Option<u64>,
        buffer: &mut [u8],
        blocking: Blocking,
    ) -> Result<usize>;
    /// Reads bytes as [`read`](Self::read) does with [`Blocking::MaySleep`], into memory that need
    /// not be initialized.
    fn read_into(
        &self,
        fd: BorrowedFd<'_>,
        offset: Option<u64>,
        memory: Spare<'_>,
    ) -> Result<usize> {
        self.read(fd, offset, memory.into_slice(), Blocking::MaySleep)
    }
    /// Reads and drops up to `len` bytes, at most [`LONGEST_DISCARD`]: `readv(2)`.
    fn discard(&self, fd: BorrowedFd<'_>, len: usize) -> Result<usize>;
    /// Writes bytes: `write(2)`, `pwrite(2)` at an offset, or `pwritev2(RWF_NOWAIT)`.
    fn write(
        &self,
        fd: BorrowedFd<'_>,
        offset: Option<u64>,
        bytes: &[u8],
        blocking: Blocking,
    ) -> Result<usize>;
    /// Writes to a stream socket that more bytes will follow: `send(MSG_MORE)`.
    fn send_more(&self, fd: BorrowedFd<'_>, bytes: &[u8], blocking: Blocking) -> Result<usize>;
    /// Returns how many bytes wait in a pipe or stream socket: none at its end, or after a failure.
    fn n_waiting(&self, fd: BorrowedFd<'_>) -> Result<u64>;
    /// Returns the length of the next datagram, which stays: `recv(MSG_PEEK | MSG_TRUNC)`.
    fn next_datagram(&self, fd: BorrowedFd<'_>, blocking: Blocking) -> Result<usize>;
    /// Moves bytes out of a pipe or into one: `splice(2)`.
    fn splice(
        &self,
        source: FdAt<'_>,
        sink: FdAt<'_>,
        len: usize,
        flags: SpliceFlags,
    ) -> Result<usize>;
    /// Shares bytes of one pipe with another, and leaves them in the source: `tee(2)`.
    fn tee(
        &self,
        source: BorrowedFd<'_>,
        sink: BorrowedFd<'_>,
        len: usize,
        flags: SpliceFlags,
    ) -> Result<usize>;
    /// Sends bytes of a file: `sendfile(2)`.
    fn sendfile(&self, sink: BorrowedFd<'_>, source: FdAt<'_>, len: usize) -> Result<usize>;
    /// Copies bytes between two files: `copy_file_range(2)`.
    fn copy_file_range(&self, source: FdAt<'_>, sink: FdAt<'_>, len: usize) -> Result<usize>;
    /// Makes the sink share all blocks of the source: `ioctl(FICLONE)`.
    fn clone_file(&self, source: BorrowedFd<'_>, sink: BorrowedFd<'_>) -> Result<()>;
    /// Makes a range of the sink share blocks of the source: `ioctl(FICLONERANGE)`.
    fn clone_range(
        &self,
        source: BorrowedFd<'_>,
        source_offset: u64,
        sink: BorrowedFd<'_>,
        sink_offset: u64,
        len: u64,
    ) -> Result<()>;

    // Pipes.

    /// Opens a pipe, reader first, both ends in this mode: `pipe2(O_CLOEXEC)`.
    fn pipe(&self, blocking: Blocking) -> Result<(OwnedFd, OwnedFd)>;
    /// Returns how many descriptors the process may have open: `getrlimit(RLIMIT_NOFILE)`.
    fn descriptor_limit(&self) -> u64;
    /// Returns the capacity of the pipe in bytes: `fcntl(F_GETPIPE_SZ)`.
    fn pipe_capacity(&self, fd: BorrowedFd<'_>) -> Result<usize>;
    /// Requests a capacity and returns the new one, both in bytes: `fcntl(F_SETPIPE_SZ)`.
    fn set_pipe_capacity(&self, fd: BorrowedFd<'_>, bytes: usize) -> Result<usize>;

    // Sockets.

    /// Opens two connected unix stream sockets in non-blocking mode: `socketpair(2)`.
    fn socket_pair(&self) -> Result<(OwnedFd, OwnedFd)>;

    // Positions, holes and the page cache.

    /// Moves the cursor, or finds data or a hole: `lseek(2)`.
    fn seek(&self, fd: BorrowedFd<'_>, to: SeekFrom) -> Result<u64>;
    /// Makes a hole and keeps the size of the file: `fallocate(FALLOC_FL_PUNCH_HOLE)`.
    fn punch_hole(&self, fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()>;
    /// Writes dirty pages to the disk: `sync_file_range(2)`.
    fn write_out(&self, fd: BorrowedFd<'_>, offset: u64, len: u64, how: WriteOut) -> Result<()>;
    /// Writes the data of the file to the disk and waits for it: `fdatasync(2)`.
    fn sync_data(&self, fd: BorrowedFd<'_>) -> Result<()>;
    /// Drops clean cached pages, to the end if `len` is 0: `posix_fadvise(POSIX_FADV_DONTNEED)`.
    fn drop_pages(&self, fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()>;
    /// Disables readahead of this open file: `posix_fadvise(POSIX_FADV_RANDOM)`.
    fn read_single_pages(&self, fd: BorrowedFd<'_>) -> Result<()>;
    /// Returns the size of a page in bytes: `sysconf(_SC_PAGESIZE)`, which makes no system call.
    fn page_size(&self) -> u64;

    // Time.

    /// Waits for one of the descriptors, at most for `timeout` (`None`: for ever): `ppoll(2)`.
    fn poll(&self, fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize>;
    /// Returns the time of a monotonic clock, `clock_gettime(CLOCK_MONOTONIC)`, since a moment that
    /// is the same for all threads.
    fn now(&self) -> Duration;

    // Threads.

    /// Returns the same kernel for another thread, `None` if only this thread can make calls.
    fn for_another_thread(&self) -> Option<impl Kernel + Send + 'static>;
}
