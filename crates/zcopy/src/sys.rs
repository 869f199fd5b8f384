//! The system calls of this crate: [`Kernel`] declares them, [`Linux`] makes them through rustix,
//! and the tests have a simulated kernel.
//!
//! This is the only file of the crate that may contain `unsafe`: for the ioctls, for the one call
//! that rustix lacks, for reads whose buffers overlap or are not initialized, for a mapping, and for
//! descriptors that a value borrows from owners beside it.

#![allow(
    unsafe_code,
    reason = "calls that rustix lacks or calls unsafe; see each block"
)]

use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FallocateFlags, Mode, StatxFlags};
use rustix::io::IoSliceMut;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::sockopt::Timeout;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags};
use rustix::pipe::PipeFlags;

use crate::side::Side;

pub(crate) use kernel::{
    Blocking, Errno, FdAt, FileSystemStatus, FileType, Kernel, LONGEST_DISCARD, OFlags, PollFd,
    PollFlags, Result, SealFlags, SeekFrom, SocketType, SpliceFlags, Status, WriteOut, read_up_to,
    retried,
};
pub(crate) use spare::Spare;

use kernel::{DISCARD_ROOM, MAX_BUFFERS};
use nowait::{read_nowait, write_nowait};

mod kernel;
mod nowait;
mod poll;
mod spare;

/// A `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Buffer {
    base: *mut u8,
    len: usize,
}

/// Returns whether the kernel would map `len` more bytes of memory for this process now: maps and
/// unmaps them. The allocator cannot answer this, because it first gives memory that it has kept.
pub(crate) fn is_memory_left(len: usize) -> bool {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let no_address = std::ptr::null_mut();
    // SAFETY: the kernel chooses an address where nothing is mapped.
    let mapping = unsafe { rustix::mm::mmap_anonymous(no_address, len, access, MapFlags::PRIVATE) };
    let is_left = mapping.is_ok();
    if let Ok(mapping) = mapping {
        // SAFETY: the mapping was made above, and no pointer into it is used afterwards.
        let _ = unsafe { rustix::mm::munmap(mapping, len) };
    }
    is_left
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
        #[allow(clippy::useless_conversion, reason = "32 bits on some targets")]
        let free_blocks = u64::from(stat.f_bavail);
        let block_size = u64::try_from(stat.f_bsize).unwrap_or(0);
        Ok(FileSystemStatus {
            magic: magic.into(),
            block_size,
            free: (stat.f_blocks > 0).then(|| free_blocks.saturating_mul(block_size)),
        })
    }

    fn device_size(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        // The opcode in <linux/fs.h> contains the size of a `size_t`, although the kernel writes a
        // u64.
        const BLKGETSIZE64: Opcode = opcode::read::<usize>(0x12, 114);
        // SAFETY: the opcode is valid, and the kernel writes one u64 through the pointer on every
        // architecture.
        unsafe { ioctl(fd, Getter::<BLKGETSIZE64, u64>::new()) }
    }

    fn device_block_size(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        // The opcode in <linux/fs.h> contains the size of a `size_t`, although the kernel writes an
        // int.
        const BLKBSZGET: Opcode = opcode::read::<usize>(0x12, 112);
        // SAFETY: the opcode is valid, and the kernel writes one int through the pointer on every
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
        let is_known = status.stx_mask & mask.bits() != 0;
        Ok(u64::from(status.stx_dio_offset_align) * u64::from(is_known))
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
        // SAFETY: `into_raw_fd` gave up the ownership of this open descriptor.
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
            (None, Blocking::Nonblocking) => read_nowait(fd, buffer),
        }
    }

    fn read_into(
        &self,
        fd: BorrowedFd<'_>,
        offset: Option<u64>,
        memory: Spare<'_>,
    ) -> Result<usize> {
        let (bytes, len) = match memory.into_spare_capacity() {
            Ok(spare) => spare,
            Err(slice) => return self.read(fd, offset, slice, Blocking::MaySleep),
        };
        let spare = &mut bytes.spare_capacity_mut()[..len];
        let (filled, _) = match offset {
            Some(offset) => rustix::io::pread(fd, spare, offset),
            None => rustix::io::read(fd, spare),
        }?;
        let (n, len) = (filled.len(), bytes.len());
        // SAFETY: the kernel has initialized these `n` bytes, which lie behind the vector's end and
        // within its capacity.
        unsafe { bytes.set_len(len + n) };
        Ok(n)
    }

    fn discard(&self, fd: BorrowedFd<'_>, len: usize) -> Result<usize> {
        let mut room = [0_u8; DISCARD_ROOM];
        let base = room.as_mut_ptr();
        let whole = Buffer {
            base,
            len: DISCARD_ROOM,
        };
        let mut buffers = [whole; MAX_BUFFERS];
        let len = len.min(LONGEST_DISCARD);
        let n_whole = len / DISCARD_ROOM;
        let n_buffers = len.div_ceil(DISCARD_ROOM);
        if let Some(last) = buffers.get_mut(n_whole) {
            last.len = len % DISCARD_ROOM;
        }
        // SAFETY: An `IoSliceMut` has the layout of an `iovec`, as `Buffer` has. The buffers are
        // the same memory, which the kernel allows, and nobody makes references of them: rustix
        // passes the pointer on. `room` outlives the call.
        let slices = unsafe {
            std::slice::from_raw_parts_mut(buffers.as_mut_ptr().cast::<IoSliceMut<'_>>(), n_buffers)
        };
        rustix::io::readv(fd, slices)
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
            (None, Blocking::Nonblocking) => write_nowait(fd, bytes),
        }
    }

    fn send_more(&self, fd: BorrowedFd<'_>, bytes: &[u8], blocking: Blocking) -> Result<usize> {
        let mut flags = SendFlags::MORE;
        flags.set(SendFlags::DONTWAIT, blocking == Blocking::Nonblocking);
        rustix::net::send(fd, bytes, flags)
    }

    fn n_waiting(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        rustix::io::ioctl_fionread(fd)
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
        // SAFETY: the opcode takes a pointer to this struct and only reads from it. `source` is
        // borrowed, so that it is open during the call.
        unsafe { ioctl(sink, Setter::<FICLONERANGE, FileCloneRange>::new(range)) }
    }

    fn pipe(&self, blocking: Blocking) -> Result<(OwnedFd, OwnedFd)> {
        let mode = match blocking {
            Blocking::MaySleep => PipeFlags::empty(),
            Blocking::Nonblocking => PipeFlags::NONBLOCK,
        };
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC | mode)
    }

    fn descriptor_limit(&self) -> u64 {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        limit.current.unwrap_or(u64::MAX)
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
        // SAFETY: the call takes no pointers. `fd` is borrowed, so that it is open during the call.
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
        poll::poll(fds, timeout)
    }

    fn now(&self) -> Duration {
        // For the first time that a process asks for, rustix searches the vDSO for what libc has
        // found already.
        static START: OnceLock<Instant> = OnceLock::new();
        let now = Instant::now();
        now.saturating_duration_since(*START.get_or_init(|| now))
    }

    fn for_another_thread(&self) -> Option<impl Kernel + Send + 'static> {
        Some(*self)
    }
}

/// Opens an event descriptor, which is readable once it has been [signalled](signal_event):
/// `eventfd(2)`.
pub(crate) fn event() -> Result<OwnedFd> {
    use rustix::event::EventfdFlags;
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

/// Makes an event descriptor readable.
pub(crate) fn signal_event(event: BorrowedFd<'_>) -> Result<()> {
    retried(|| rustix::io::write(event, &1_u64.to_ne_bytes())).map(|_| ())
}

/// Ends the stream that the peer of a socket reads: `shutdown(SHUT_WR)`.
pub(crate) fn shut_down_writes(fd: BorrowedFd<'_>) -> Result<()> {
    rustix::net::shutdown(fd, rustix::net::Shutdown::Write)
}

/// A value that uses descriptors, together with their owners.
///
/// The value is dropped before the owners. No code changes the owners while the value exists.
pub(crate) struct WithOwners<Value, Owners> {
    // Fields are dropped in this order.
    value: Value,
    owners: Owners,
}

/// Lends descriptors of owners that are kept for the lifetime `'a` of a value.
pub(crate) struct Lender<'a>(PhantomData<&'a ()>);

impl<Value, Owners> WithOwners<Value, Owners> {
    /// Makes the value from the owners. It may hold any descriptor that the lender lends it, and
    /// must not give these away: they are open only as long as this value exists.
    pub(crate) fn new<'a>(owners: Owners, make: impl FnOnce(&Owners, Lender<'a>) -> Value) -> Self {
        Self {
            value: make(&owners, Lender(PhantomData)),
            owners,
        }
    }

    /// Puts the value into another one, which must not give its descriptors away either.
    pub(crate) fn map<Other>(
        self,
        put_into: impl FnOnce(Value) -> Other,
    ) -> WithOwners<Other, Owners> {
        WithOwners {
            value: put_into(self.value),
            owners: self.owners,
        }
    }

    pub(crate) fn value_mut(&mut self) -> &mut Value {
        &mut self.value
    }

    /// Returns the value and its owners at the same time.
    #[cfg(feature = "tokio")]
    pub(crate) fn split_mut(&mut self) -> (&mut Value, &Owners) {
        (&mut self.value, &self.owners)
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    pub(crate) fn owners(&self) -> &Owners {
        &self.owners
    }
}

impl<'a> Lender<'a> {
    /// Returns the descriptor with the lifetime of the value.
    #[allow(
        clippy::unused_self,
        reason = "a lender exists only while the value is made"
    )]
    pub(crate) fn lend(&self, fd: BorrowedFd<'_>) -> BorrowedFd<'a> {
        // SAFETY: `fd` was borrowed from an owner that stands in the same `WithOwners` as the value
        // that receives the result, and is dropped after it. Until then the owner is neither
        // mutated nor given away by value. Its type cannot tell when a shared borrow ends, so it
        // keeps the descriptor open until then. The owner may move in memory: a descriptor is a
        // number.
        unsafe { BorrowedFd::borrow_raw(fd.as_raw_fd()) }
    }
}
