//! The seam to the kernel: the calls this crate makes, and nothing else.
//!
//! [`Kernel`] names them, [`Linux`] makes them through rustix, and the tests script them. This is
//! the only file where `unsafe` may stand: for the ioctls and the one call that rustix does not
//! offer.
//!
//! Every method is one system call, without retries: an interrupted call returns [`Errno::INTR`]
//! and the engine decides.

#![allow(
    unsafe_code,
    reason = "calls that rustix lacks or calls unsafe; see each block"
)]

use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::fs::{AtFlags, FallocateFlags, Mode, StatxFlags};
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};
use rustix::net::sockopt::Timeout;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags};

use crate::side::Side;

mod nowait;

pub(crate) use rustix::event::{PollFd, PollFlags};
pub(crate) use rustix::fs::{FileType, OFlags, SealFlags, SeekFrom};
pub(crate) use rustix::io::Errno;
pub(crate) use rustix::net::SocketType;
pub(crate) use rustix::pipe::SpliceFlags;

/// What one call answers.
pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// Makes a call until no signal interrupts it.
pub(crate) fn retried<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}

/// What `fstat(2)` says of a descriptor, as far as this crate asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    pub(crate) file_type: FileType,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// The device a device node stands for.
    pub(crate) names_device: u64,
    pub(crate) size: u64,
    /// Bytes allocated: `st_blocks` in units of 512.
    pub(crate) allocated: u64,
}

/// What `fstatfs(2)` says of the file system that a descriptor stands on, as far as this crate asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSystemStatus {
    pub(crate) magic: u64,
    pub(crate) block_size: u64,
    /// Bytes that an unprivileged user may still write, if the file system has a bound.
    pub(crate) free: Option<u64>,
}

/// Whether a call may sleep on a descriptor that is in blocking mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocking {
    /// It may.
    MaySleep,
    /// It may not, where the kernel can be told so for one call.
    Nonblocking,
}

/// How much of the write-out of dirty pages a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOut {
    /// Starts it.
    Start,
    /// Starts it and waits until the pages are clean.
    Finish,
}

/// A descriptor, and the offset that a call names there: `None` for the descriptor's own cursor.
pub(crate) type FdAt<'fd> = (BorrowedFd<'fd>, Option<u64>);

/// Every system call this crate makes.
///
/// A `None` offset means the descriptor's own cursor, which the call then advances.
pub(crate) trait Kernel {
    // What a descriptor is.

    fn fstat(&self, fd: BorrowedFd<'_>) -> Result<Status>;
    fn status_flags(&self, fd: BorrowedFd<'_>) -> Result<OFlags>;
    fn socket_type(&self, fd: BorrowedFd<'_>) -> Result<SocketType>;
    /// Whether a socket accepts connections (`SO_ACCEPTCONN`), so that no bytes go through it.
    fn is_listening(&self, fd: BorrowedFd<'_>) -> Result<bool>;
    fn file_system(&self, fd: BorrowedFd<'_>) -> Result<FileSystemStatus>;
    /// The size of a block device in bytes.
    fn device_size(&self, fd: BorrowedFd<'_>) -> Result<u64>;
    /// What the page cache reads of a block device at once, in bytes.
    fn device_block_size(&self, fd: BorrowedFd<'_>) -> Result<u64>;
    fn seals(&self, fd: BorrowedFd<'_>) -> Result<SealFlags>;
    /// What `O_DIRECT` asks of positions and lengths, in bytes; 0 if the file system does not say.
    fn direct_alignment(&self, fd: BorrowedFd<'_>) -> Result<u64>;
    fn send_buffer_size(&self, fd: BorrowedFd<'_>) -> Result<usize>;
    /// Another descriptor of the same file, with these of its flags, in non-blocking mode, with a cursor of its own.
    fn reopen(&self, fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd>;
    /// `close(2)`, after which the descriptor is gone, whatever the answer is.
    fn close(&self, fd: OwnedFd) -> Result<()>;
    /// `SO_RCVTIMEO` of a source, `SO_SNDTIMEO` of a sink.
    fn socket_timeout(&self, fd: BorrowedFd<'_>, side: Side) -> Result<Option<Duration>>;
    /// `SO_ERROR`, which the kernel forgets when it has told it.
    fn socket_error(&self, fd: BorrowedFd<'_>) -> Result<Option<Errno>>;
    /// Reads into no buffers at all: `EINVAL` if the file has no read operation.
    fn read_nothing(&self, fd: BorrowedFd<'_>) -> Result<()>;
    /// Writes from no buffers at all: `EINVAL` if the file has no write operation.
    fn write_nothing(&self, fd: BorrowedFd<'_>) -> Result<()>;

    // Moving bytes.

    fn read(
        &self,
        fd: BorrowedFd<'_>,
        offset: Option<u64>,
        buffer: &mut [u8],
        blocking: Blocking,
    ) -> Result<usize>;
    fn write(
        &self,
        fd: BorrowedFd<'_>,
        offset: Option<u64>,
        bytes: &[u8],
        blocking: Blocking,
    ) -> Result<usize>;
    /// The length of the datagram that the next `read` would take, which may be longer than any
    /// buffer.
    fn next_datagram(&self, fd: BorrowedFd<'_>, blocking: Blocking) -> Result<usize>;
    fn splice(
        &self,
        source: FdAt<'_>,
        sink: FdAt<'_>,
        len: usize,
        flags: SpliceFlags,
    ) -> Result<usize>;
    /// `tee(2)`: the bytes stay in the source pipe.
    fn tee(
        &self,
        source: BorrowedFd<'_>,
        sink: BorrowedFd<'_>,
        len: usize,
        flags: SpliceFlags,
    ) -> Result<usize>;
    fn sendfile(&self, sink: BorrowedFd<'_>, source: FdAt<'_>, len: usize) -> Result<usize>;
    fn copy_file_range(&self, source: FdAt<'_>, sink: FdAt<'_>, len: usize) -> Result<usize>;
    /// `FICLONE`: the sink becomes a clone of the whole source.
    fn clone_file(&self, source: BorrowedFd<'_>, sink: BorrowedFd<'_>) -> Result<()>;
    /// `FICLONERANGE`.
    fn clone_range(
        &self,
        source: BorrowedFd<'_>,
        source_offset: u64,
        sink: BorrowedFd<'_>,
        sink_offset: u64,
        len: u64,
    ) -> Result<()>;

    // Pipes.

    fn pipe(&self) -> Result<(OwnedFd, OwnedFd)>;
    fn pipe_capacity(&self, fd: BorrowedFd<'_>) -> Result<usize>;
    fn set_pipe_capacity(&self, fd: BorrowedFd<'_>, bytes: usize) -> Result<usize>;

    // Sockets.

    /// Two unix stream sockets, connected to each other, in non-blocking mode.
    fn socket_pair(&self) -> Result<(OwnedFd, OwnedFd)>;

    // Positions, holes and the page cache.

    fn seek(&self, fd: BorrowedFd<'_>, to: SeekFrom) -> Result<u64>;
    fn punch_hole(&self, fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()>;
    fn write_out(&self, fd: BorrowedFd<'_>, offset: u64, len: u64, how: WriteOut) -> Result<()>;
    /// `fdatasync(2)`.
    fn sync_data(&self, fd: BorrowedFd<'_>) -> Result<()>;
    /// `POSIX_FADV_DONTNEED`; a length of 0 means to the end of the file.
    fn drop_pages(&self, fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()>;
    /// Has reads of this opening bring no other pages than those that are asked for.
    fn read_single_pages(&self, fd: BorrowedFd<'_>) -> Result<()>;
    fn page_size(&self) -> u64;

    // Time.

    /// Waits for one of the descriptors, or for the time to pass (`None`: for ever).
    fn poll(&self, fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize>;
    /// A monotonic clock, counted from anywhere.
    fn now(&self) -> Duration;

    // Threads.

    /// The same kernel for another thread; `None` if calls can be made from this thread alone.
    fn for_another_thread(&self) -> Option<impl Kernel + Send + 'static>;
}

/// The running kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Linux;

impl Kernel for Linux {
    fn fstat(&self, fd: BorrowedFd<'_>) -> Result<Status> {
        let stat = rustix::fs::fstat(fd)?;
        Ok(Status {
            file_type: FileType::from_raw_mode(stat.st_mode),
            device: stat.st_dev,
            inode: stat.st_ino,
            names_device: stat.st_rdev,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            allocated: u64::try_from(stat.st_blocks).unwrap_or(0) * 512,
        })
    }

    fn status_flags(&self, fd: BorrowedFd<'_>) -> Result<OFlags> {
        rustix::fs::fcntl_getfl(fd)
    }

    fn socket_type(&self, fd: BorrowedFd<'_>) -> Result<SocketType> {
        rustix::net::sockopt::socket_type(fd)
    }

    fn is_listening(&self, fd: BorrowedFd<'_>) -> Result<bool> {
        rustix::net::sockopt::socket_acceptconn(fd)
    }

    fn file_system(&self, fd: BorrowedFd<'_>) -> Result<FileSystemStatus> {
        let stat = rustix::fs::fstatfs(fd)?;
        #[allow(
            clippy::cast_sign_loss,
            reason = "magic numbers have 32 bits, and most targets hold them in a signed word"
        )]
        let magic = stat.f_type as u32;
        Ok(FileSystemStatus {
            magic: magic.into(),
            block_size: u64::try_from(stat.f_bsize).unwrap_or(0),
            free: (stat.f_blocks > 0).then(|| {
                let block_size = u64::try_from(stat.f_bsize).unwrap_or(0);
                // Its type differs from target to target.
                #[allow(clippy::useless_conversion, reason = "32 bits on some targets")]
                let n_blocks = u64::from(stat.f_bavail);
                n_blocks.saturating_mul(block_size)
            }),
        })
    }

    fn device_size(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        // <linux/fs.h> defines it with `size_t` in the number, though a u64 is written.
        const BLKGETSIZE64: Opcode = opcode::read::<usize>(0x12, 114);
        // SAFETY: the opcode is valid and the kernel writes one u64 through the pointer, on every
        // architecture.
        unsafe { ioctl(fd, Getter::<BLKGETSIZE64, u64>::new()) }
    }

    fn device_block_size(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        // <linux/fs.h> defines it with `size_t` in the number, though an int is written.
        const BLKBSZGET: Opcode = opcode::read::<usize>(0x12, 112);
        // SAFETY: the opcode is valid and the kernel writes one int through the pointer, on every
        // architecture.
        let size = unsafe { ioctl(fd, Getter::<BLKBSZGET, i32>::new()) }?;
        u64::try_from(size).map_err(|_| Errno::INVAL)
    }

    fn seals(&self, fd: BorrowedFd<'_>) -> Result<SealFlags> {
        rustix::fs::fcntl_get_seals(fd)
    }

    fn direct_alignment(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        let (flags, mask) = (AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
        let status = rustix::fs::statx(fd, "", flags, mask)?;
        let is_told = status.stx_mask & mask.bits() != 0;
        Ok(u64::from(status.stx_dio_offset_align) * u64::from(is_told))
    }

    fn send_buffer_size(&self, fd: BorrowedFd<'_>) -> Result<usize> {
        rustix::net::sockopt::socket_send_buffer_size(fd)
    }

    fn reopen(&self, fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd> {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())
    }

    fn close(&self, fd: OwnedFd) -> Result<()> {
        // SAFETY: the descriptor was owned, and its owner has given it up.
        unsafe { rustix::io::try_close(fd.into_raw_fd()) }
    }

    fn socket_timeout(&self, fd: BorrowedFd<'_>, side: Side) -> Result<Option<Duration>> {
        let which = match side {
            Side::Source => Timeout::Recv,
            Side::Sink | Side::Neither => Timeout::Send,
        };
        rustix::net::sockopt::socket_timeout(fd, which)
    }

    fn socket_error(&self, fd: BorrowedFd<'_>) -> Result<Option<Errno>> {
        rustix::net::sockopt::socket_error(fd).map(std::result::Result::err)
    }

    fn read_nothing(&self, fd: BorrowedFd<'_>) -> Result<()> {
        rustix::io::readv(fd, &mut []).map(|_| ())
    }

    fn write_nothing(&self, fd: BorrowedFd<'_>) -> Result<()> {
        rustix::io::writev(fd, &[]).map(|_| ())
    }

    fn read(
        &self,
        fd: BorrowedFd<'_>,
        offset: Option<u64>,
        buffer: &mut [u8],
        blocking: Blocking,
    ) -> Result<usize> {
        match (offset, blocking) {
            (Some(offset), _) => rustix::io::pread(fd, buffer, offset),
            (None, Blocking::MaySleep) => rustix::io::read(fd, buffer),
            (None, Blocking::Nonblocking) => nowait::read(fd, buffer),
        }
    }

    fn write(
        &self,
        fd: BorrowedFd<'_>,
        offset: Option<u64>,
        bytes: &[u8],
        blocking: Blocking,
    ) -> Result<usize> {
        match (offset, blocking) {
            (Some(offset), _) => rustix::io::pwrite(fd, bytes, offset),
            (None, Blocking::MaySleep) => rustix::io::write(fd, bytes),
            (None, Blocking::Nonblocking) => nowait::write(fd, bytes),
        }
    }

    fn next_datagram(&self, fd: BorrowedFd<'_>, blocking: Blocking) -> Result<usize> {
        let mut flags = RecvFlags::PEEK | RecvFlags::TRUNC;
        flags.set(RecvFlags::DONTWAIT, blocking == Blocking::Nonblocking);
        rustix::net::recv(fd, &mut [0_u8; 1], flags).map(|(_, len)| len)
    }

    fn splice(
        &self,
        (source, mut source_offset): FdAt<'_>,
        (sink, mut sink_offset): FdAt<'_>,
        len: usize,
        flags: SpliceFlags,
    ) -> Result<usize> {
        let (source_offset, sink_offset) = (source_offset.as_mut(), sink_offset.as_mut());
        rustix::pipe::splice(source, source_offset, sink, sink_offset, len, flags)
    }

    fn tee(
        &self,
        source: BorrowedFd<'_>,
        sink: BorrowedFd<'_>,
        len: usize,
        flags: SpliceFlags,
    ) -> Result<usize> {
        rustix::pipe::tee(source, sink, len, flags)
    }

    fn sendfile(
        &self,
        sink: BorrowedFd<'_>,
        (source, mut offset): FdAt<'_>,
        len: usize,
    ) -> Result<usize> {
        rustix::fs::sendfile(sink, source, offset.as_mut(), len)
    }

    fn copy_file_range(
        &self,
        (source, mut source_offset): FdAt<'_>,
        (sink, mut sink_offset): FdAt<'_>,
        len: usize,
    ) -> Result<usize> {
        let (source_offset, sink_offset) = (source_offset.as_mut(), sink_offset.as_mut());
        rustix::fs::copy_file_range(source, source_offset, sink, sink_offset, len)
    }

    fn clone_file(&self, source: BorrowedFd<'_>, sink: BorrowedFd<'_>) -> Result<()> {
        rustix::fs::ioctl_ficlone(sink, source)
    }

    fn clone_range(
        &self,
        source: BorrowedFd<'_>,
        source_offset: u64,
        sink: BorrowedFd<'_>,
        sink_offset: u64,
        len: u64,
    ) -> Result<()> {
        /// `struct file_clone_range` of <linux/fs.h>.
        #[repr(C)]
        struct FileCloneRange {
            src_fd: i64,
            src_offset: u64,
            src_length: u64,
            dest_offset: u64,
        }
        const FICLONERANGE: Opcode = opcode::write::<FileCloneRange>(0x94, 13);
        let range = FileCloneRange {
            src_fd: i64::from(source.as_raw_fd()),
            src_offset: source_offset,
            src_length: len,
            dest_offset: sink_offset,
        };
        // SAFETY: the opcode takes a pointer to this very struct and only reads it; `source` is
        // open for the call.
        unsafe { ioctl(sink, Setter::<FICLONERANGE, FileCloneRange>::new(range)) }
    }

    fn pipe(&self) -> Result<(OwnedFd, OwnedFd)> {
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
    }

    fn pipe_capacity(&self, fd: BorrowedFd<'_>) -> Result<usize> {
        rustix::pipe::fcntl_getpipe_size(fd)
    }

    fn set_pipe_capacity(&self, fd: BorrowedFd<'_>, bytes: usize) -> Result<usize> {
        rustix::pipe::fcntl_setpipe_size(fd, bytes)
    }

    fn socket_pair(&self) -> Result<(OwnedFd, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
    }

    fn seek(&self, fd: BorrowedFd<'_>, to: SeekFrom) -> Result<u64> {
        rustix::fs::seek(fd, to)
    }

    fn punch_hole(&self, fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()> {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(fd, mode, offset, len)
    }

    fn write_out(&self, fd: BorrowedFd<'_>, offset: u64, len: u64, how: WriteOut) -> Result<()> {
        const WAIT_BEFORE: u32 = 1;
        const WRITE: u32 = 2;
        const WAIT_AFTER: u32 = 4;
        unsafe extern "C" {
            // Offsets are `off64_t` in glibc and in musl, whatever the width of a word.
            fn sync_file_range(fd: i32, offset: i64, nbytes: i64, flags: u32) -> i32;
        }
        let flags = match how {
            WriteOut::Start => WRITE,
            WriteOut::Finish => WAIT_BEFORE | WRITE | WAIT_AFTER,
        };
        let offset = i64::try_from(offset).map_err(|_| Errno::INVAL)?;
        let len = i64::try_from(len).map_err(|_| Errno::INVAL)?;
        // SAFETY: the call takes no pointers, and the descriptor is open while it is borrowed.
        match unsafe { sync_file_range(fd.as_raw_fd(), offset, len, flags) } {
            0 => Ok(()),
            _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    }

    fn sync_data(&self, fd: BorrowedFd<'_>) -> Result<()> {
        rustix::fs::fdatasync(fd)
    }

    fn drop_pages(&self, fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()> {
        let len = std::num::NonZeroU64::new(len);
        rustix::fs::fadvise(fd, offset, len, rustix::fs::Advice::DontNeed)
    }

    fn read_single_pages(&self, fd: BorrowedFd<'_>) -> Result<()> {
        rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::Random)
    }

    fn page_size(&self) -> u64 {
        rustix::param::page_size() as u64
    }

    fn poll(&self, fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize> {
        // A time too long for the kernel is as good as for ever.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        rustix::event::poll(fds, timeout.as_ref())
    }

    fn now(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Duration::try_from(now).unwrap_or_default()
    }

    fn for_another_thread(&self) -> Option<impl Kernel + Send + 'static> {
        Some(*self)
    }
}
