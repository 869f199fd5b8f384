//! The facts about a descriptor from which the plan is made.

use std::fmt;
use std::os::fd::BorrowedFd;

use crate::buffer;
use crate::call_error::CallError;
use crate::side::Side;
use crate::sys::{Errno, FileType, Kernel, OFlags, SealFlags, SeekFrom, SocketType, Status};

/// What the kernel knows about a descriptor.
///
/// [`FdInfo::of`] makes two calls, so that a transfer of one byte stays cheap.
/// [`FdInfo::classify_fully`] determines the rest, for transfers that are long enough to repay it.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "facts that the kernel gives one by one"
)]
pub(crate) struct FdInfo {
    pub(crate) kind: Kind,
    /// The file system (`st_dev`) and the file (`st_ino`).
    pub(crate) identity: (u64, u64),
    /// The length in bytes, if it is known: of a regular file with a size above 0, and of a block
    /// device once fully classified. Files in `/proc` have the size 0 and are not empty.
    pub(crate) size: Option<u64>,
    /// The number of bytes that the file system has allocated to a regular file.
    pub(crate) allocated: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// `O_APPEND`: every write goes to the end, and the kernel refuses offloads.
    pub(crate) append: bool,
    pub(crate) nonblocking: bool,
    /// `O_DIRECT` on a file or block device: it accepts only whole blocks in aligned memory.
    pub(crate) direct: bool,
    /// Whether opening this terminal again opens the same one. Opening `/dev/ptmx` creates a new
    /// terminal, and `/dev/tty` may be a different one by now.
    pub(crate) can_be_reopened: bool,
    /// The position of the cursor, once fully classified.
    pub(crate) cursor: Option<u64>,
    pub(crate) file_system: FileSystem,
    /// The free space of the file system, in bytes, at the time of the call.
    pub(crate) free: Option<u64>,
    /// The granularity in which its blocks can be shared, in bytes. `None` where `fstatfs(2)`
    /// returns another value, as on network file systems.
    pub(crate) block_size: Option<u64>,
    /// Whether the file's bytes can no longer change: a memfd sealed against writing and shrinking,
    /// or a file on a read-only image.
    pub(crate) immutable: bool,
}

/// The kinds of descriptor that the plan distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Regular,
    Directory,
    Pipe,
    Stream,
    /// Datagram and sequential-packet sockets: one read returns one message.
    Datagram,
    Block,
    /// `/dev/null`.
    Null,
    /// `/dev/zero`, `/dev/full`, `/dev/random`, `/dev/urandom`.
    Memory(Memory),
    Terminal,
    /// Another character device, an epoll or event descriptor. Only a call shows which operations
    /// it has.
    Other,
    /// No descriptor, but a repeated pattern.
    Pattern,
    /// No descriptor, but a reader or writer of the caller's.
    Io,
}

/// The memory devices (major number 1) that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Zero,
    Full,
    Random,
    Urandom,
}

/// The file systems that the plan distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// Not determined.
    Unknown,
    Ext4,
    Tmpfs,
    Btrfs,
    Xfs,
    /// A file system in user space.
    Fuse,
    /// A read-only format: `squashfs`, `erofs`, `iso9660`, `cramfs`, `romfs`.
    Image,
    Other,
}

/// The major number of BSD pseudo-terminal masters, which can be opened once.
const OLD_MASTERS: u32 = 2;
/// The major number of `/dev/tty`, `/dev/console` and `/dev/ptmx`, each of which refers to another
/// terminal when it is opened.
const NO_TERMINAL_OF_ITS_OWN: u32 = 5;

/// The longest message of `/dev/kmsg`, in bytes. It refuses a shorter read, and no device is known
/// that has longer messages and does so, too.
pub(crate) const LARGEST_DEVICE_MESSAGE: usize = 8 << 10;

/// The smallest block of any disk, in bytes.
pub(crate) const SECTOR: u64 = 512;

impl FdInfo {
    /// Returns the information about an unknown descriptor of this kind.
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            identity: (0, 0),
            size: None,
            allocated: 0,
            readable: true,
            writable: true,
            append: false,
            nonblocking: false,
            direct: false,
            can_be_reopened: false,
            cursor: None,
            file_system: FileSystem::Unknown,
            free: None,
            block_size: None,
            immutable: false,
        }
    }

    /// Returns the information about a pattern of `len` bytes.
    pub(crate) fn pattern(len: usize) -> Self {
        Self {
            size: Some(len as u64),
            ..Self::new(Kind::Pattern)
        }
    }

    /// Returns the information about a reader or writer of the caller's.
    pub(crate) fn io() -> Self {
        Self::new(Kind::Io)
    }

    /// Classifies `fd` with `fstat(2)`, and `fcntl(F_GETFL)` or, for a socket,
    /// `getsockopt(SO_TYPE)`.
    ///
    /// A socket is always open for reading and writing, and ignores `O_APPEND`. Whether it is
    /// nonblocking is known from its first `EAGAIN`.
    pub(crate) fn of<K: Kernel>(kernel: &K, fd: BorrowedFd<'_>) -> Result<Self, CallError> {
        Self::of_small_file(kernel, fd, 0)
    }

    /// Classifies `fd`, and skips `F_GETFL` for a regular file of 1 to `small` bytes: such a file
    /// counts as open for reading and writing, without further flags.
    pub(crate) fn of_small_file<K: Kernel>(
        kernel: &K,
        fd: BorrowedFd<'_>,
        small: u64,
    ) -> Result<Self, CallError> {
        let status = kernel.fstat(fd).map_err(|errno| failed("fstat", errno))?;
        let mut info = Self {
            identity: (status.device, status.inode),
            allocated: status.allocated,
            ..Self::new(Kind::Other)
        };
        if status.file_type == FileType::Socket {
            let socket_type = kernel.socket_type(fd);
            info.kind = match socket_type.map_err(|errno| failed("getsockopt", errno))? {
                SocketType::STREAM => Kind::Stream,
                _ => Kind::Datagram,
            };
            return Ok(info);
        }
        let is_regular = status.file_type == FileType::RegularFile;
        let flags = if is_regular && (1..=small).contains(&status.size) {
            OFlags::RDWR
        } else {
            let flags = kernel.status_flags(fd);
            flags.map_err(|errno| failed("fcntl", errno))?
        };
        info.kind = match status.file_type {
            FileType::RegularFile => Kind::Regular,
            FileType::Directory => Kind::Directory,
            FileType::Fifo => Kind::Pipe,
            FileType::BlockDevice => Kind::Block,
            FileType::CharacterDevice => Kind::of_character_device(status.names_device),
            _ => Kind::Other,
        };
        info.set_flags(flags);
        if info.kind == Kind::Terminal {
            let major = rustix::fs::major(status.names_device);
            info.can_be_reopened = !matches!(major, OLD_MASTERS | NO_TERMINAL_OF_ITS_OWN);
        }
        if info.kind == Kind::Regular && status.size > 0 {
            info.size = Some(status.size);
        }
        if info.kind == Kind::Block {
            // Two device nodes, in two directories, can refer to one device.
            info.identity = (u64::MAX, status.names_device);
        }
        Ok(info)
    }

    /// Notes the flags of the open file description.
    fn set_flags(&mut self, flags: OFlags) {
        let access = flags & OFlags::RWMODE;
        self.readable = access != OFlags::WRONLY && !flags.contains(OFlags::PATH);
        self.writable = access != OFlags::RDONLY && !flags.contains(OFlags::PATH);
        self.append = flags.contains(OFlags::APPEND);
        self.nonblocking = flags.contains(OFlags::NONBLOCK);
        // On a pipe the flag means packets, and only the writer's flag has an effect.
        self.direct = flags.contains(OFlags::DIRECT) && self.is_seekable();
    }

    /// Asks for the flags that [`FdInfo::of_small_file`] has skipped. If the call fails now, the
    /// calls that follow report why.
    pub(crate) fn classify_flags<K: Kernel>(&mut self, kernel: &K, fd: BorrowedFd<'_>) {
        if let Ok(flags) = kernel.status_flags(fd) {
            self.set_flags(flags);
        }
    }

    /// Determines what a longer transfer can use: the cursor, the file system, the size of a
    /// device, and whether a regular file can still change.
    pub(crate) fn classify_fully<K: Kernel>(&mut self, kernel: &K, fd: BorrowedFd<'_>) {
        if self.is_seekable() {
            self.cursor = kernel.seek(fd, SeekFrom::Current(0)).ok();
        }
        match self.kind {
            Kind::Regular => {
                self.classify_file_system(kernel, fd);
                // A seal against writing is not enough: truncation zeroes part of a page.
                let sealed = SealFlags::WRITE | SealFlags::SHRINK;
                self.immutable = self.file_system == FileSystem::Image
                    || self.file_system == FileSystem::Tmpfs
                        && kernel.seals(fd).is_ok_and(|seals| seals.contains(sealed));
            }
            Kind::Block => self.size = kernel.device_size(fd).ok(),
            _ => {}
        }
    }

    /// Determines the file system of a regular file, if it is not known.
    pub(crate) fn classify_file_system<K: Kernel>(&mut self, kernel: &K, fd: BorrowedFd<'_>) {
        if self.file_system != FileSystem::Unknown {
            return;
        }
        // In a sandbox that forbids fstatfs(2), the transfer is slower.
        let status = kernel.file_system(fd).ok();
        let magic = status.map(|status| status.magic);
        self.file_system = magic.map_or(FileSystem::Other, FileSystem::of_magic);
        self.free = status.and_then(|status| status.free);
        let is_known = matches!(self.file_system, FileSystem::Btrfs | FileSystem::Xfs);
        self.block_size = status.map(|status| status.block_size).filter(|_| is_known);
    }

    /// Takes over what is known of the file system, if `known` is the same file.
    pub(crate) fn keep_file_system(&mut self, known: &Self) {
        if self.is_same(known) {
            self.file_system = known.file_system;
            self.free = known.free;
            self.block_size = known.block_size;
        }
    }

    /// Whether it is a regular file with holes: the file system has allocated less than its size.
    pub(crate) fn has_holes(&self) -> bool {
        self.size.is_some_and(|size| self.allocated < size)
    }

    /// The smallest part of a file or device, in bytes, that may be readable next to a bad part: a
    /// power of 2, at least 512.
    ///
    /// Through the page cache that is a block of the file system. A page, or a folio of many pages,
    /// with a bad block never becomes up to date as a whole, but its good blocks can be read
    /// (`is_partially_uptodate`).
    pub(crate) fn granularity<K: Kernel>(&self, kernel: &K, fd: BorrowedFd<'_>) -> u64 {
        /// The largest block of any file system.
        const LARGEST: u64 = 64 << 10;
        let block = match self.kind {
            _ if self.direct => None,
            Kind::Block => kernel.device_block_size(fd).ok(),
            _ => kernel
                .file_system(fd)
                .ok()
                .filter(|status| FileSystem::of_magic(status.magic).tells_its_block())
                .map(|status| status.block_size),
        };
        block
            .filter(|block| block.is_power_of_two() && (SECTOR..=LARGEST).contains(block))
            .unwrap_or(SECTOR)
    }

    /// Whether it has positions: a call can pass an offset, and the cursor can be moved back.
    pub(crate) fn is_seekable(&self) -> bool {
        matches!(self.kind, Kind::Regular | Kind::Block)
    }

    /// Whether its bytes are in the page cache of a file that other processes can still write to.
    pub(crate) fn is_mutable_file(&self) -> bool {
        self.is_seekable() && !self.immutable
    }

    pub(crate) fn is_socket(&self) -> bool {
        matches!(self.kind, Kind::Stream | Kind::Datagram)
    }

    /// The least length, in bytes, of every read, whatever a rate or a limit allows: a shorter read
    /// would lose the rest of a message, or would be refused.
    ///
    /// A message of `/dev/kmsg` has up to 8 KiB (`PRINTK_MESSAGE_MAX` and its prefix). An eventfd,
    /// timerfd, signalfd or inotify descriptor needs less. Another reader may take a datagram after
    /// its length was read, so that the next one must fit, too.
    pub(crate) fn least_read(&self) -> usize {
        match self.kind {
            Kind::Datagram => buffer::DEFAULT_CAPACITY,
            Kind::Other => LARGEST_DEVICE_MESSAGE,
            _ => 0,
        }
    }

    /// Whether a call on it can sleep until another process acts.
    pub(crate) fn can_block(&self) -> bool {
        matches!(
            self.kind,
            Kind::Pipe | Kind::Stream | Kind::Datagram | Kind::Terminal | Kind::Other
        )
    }

    /// Whether a read of it can sleep until another process acts. This includes regular files of
    /// size 0, because `/proc/kmsg` and `trace_pipe` are among them. Those that cannot be polled
    /// always poll as ready.
    pub(crate) fn can_starve(&self) -> bool {
        self.can_block() || self.kind == Kind::Regular && self.size.is_none()
    }

    /// Whether both are the same file, pipe or device.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.identity == other.identity
    }

    /// Whether both are certainly on one file system.
    pub(crate) fn shares_file_system(&self, other: &Self) -> bool {
        self.identity.0 == other.identity.0
    }

    /// Whether the two files might share blocks.
    ///
    /// The subvolumes of one btrfs have different device numbers. So this is true for any two files
    /// on btrfs, and the call fails with `EXDEV` if these are two file systems.
    pub(crate) fn may_share_blocks(&self, other: &Self) -> bool {
        self.shares_file_system(other)
            || self.file_system == FileSystem::Btrfs && other.file_system == FileSystem::Btrfs
    }
}

/// Returns the error of a call on a descriptor. The caller sets the side.
fn failed(call: &'static str, errno: Errno) -> CallError {
    CallError::new(call, Side::Neither, errno)
}

impl Kind {
    /// Classifies a character device by its number, as listed in the kernel's `devices.txt`.
    /// Testing it would take a call.
    fn of_character_device(number: u64) -> Self {
        match (rustix::fs::major(number), rustix::fs::minor(number)) {
            (1, 3) => Kind::Null,
            (1, 5) => Kind::Memory(Memory::Zero),
            (1, 7) => Kind::Memory(Memory::Full),
            (1, 8) => Kind::Memory(Memory::Random),
            (1, 9) => Kind::Memory(Memory::Urandom),
            // Consoles and serial lines, `/dev/tty` and `/dev/ptmx`, both sides of BSD and Unix98
            // pseudo-terminals.
            (2..=5 | 128..=143 | 188 | 204 | 229, _) => Kind::Terminal,
            _ => Kind::Other,
        }
    }
}

/// Whether it is `/dev/kmsg`.
pub(crate) fn is_kernel_log(status: &Status) -> bool {
    let number = status.names_device;
    let number = (rustix::fs::major(number), rustix::fs::minor(number));
    status.file_type == FileType::CharacterDevice && number == (1, 11)
}

impl FileSystem {
    /// Whether `fstatfs(2)` returns the unit in which this file system reads, rather than the size
    /// of a cluster or a value that a server chooses.
    fn tells_its_block(self) -> bool {
        matches!(self, Self::Ext4 | Self::Btrfs | Self::Xfs)
    }

    /// Identifies a file system by its number in `<linux/magic.h>`.
    fn of_magic(magic: u64) -> Self {
        match magic {
            0xef53 => FileSystem::Ext4,
            0x0102_1994 => FileSystem::Tmpfs,
            0x9123_683e => FileSystem::Btrfs,
            0x5846_5342 => FileSystem::Xfs,
            0x6573_5546 => FileSystem::Fuse,
            0x7371_7368 | 0xe0f5_e1e2 | 0x9660 | 0x28cd_3d45 | 0x7275 => FileSystem::Image,
            _ => FileSystem::Other,
        }
    }
}

impl fmt::Display for FdInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Regular => "regular file",
            Kind::Directory => "directory",
            Kind::Pipe => "pipe",
            Kind::Stream => "stream socket",
            Kind::Datagram => "datagram socket",
            Kind::Block => "block device",
            Kind::Null => "/dev/null",
            Kind::Memory(Memory::Zero) => "/dev/zero",
            Kind::Memory(Memory::Full) => "/dev/full",
            Kind::Memory(Memory::Random) => "/dev/random",
            Kind::Memory(Memory::Urandom) => "/dev/urandom",
            Kind::Terminal => "terminal",
            Kind::Other => "other device",
            Kind::Pattern => "pattern",
            Kind::Io => "reader or writer",
        };
        f.write_str(kind)?;
        let file_system = match self.file_system {
            FileSystem::Ext4 => " on ext4",
            FileSystem::Tmpfs => " on tmpfs",
            FileSystem::Btrfs => " on btrfs",
            FileSystem::Xfs => " on xfs",
            FileSystem::Fuse => " on FUSE",
            FileSystem::Image => " on a read-only image",
            FileSystem::Unknown | FileSystem::Other => "",
        };
        f.write_str(file_system)?;
        if self.append {
            f.write_str(", appending")?;
        }
        if let Some(size) = self.size {
            write!(f, ", {size} bytes")?;
        }
        Ok(())
    }
}
