//! What file systems keep of a file, and what they promise.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::Stat;

use crate::dircopy::stat::size;

/// The numbers of file systems: those of `<linux/magic.h>`, and `NTFS3`, which has none there.
mod magic {
    pub(super) const BTRFS: i128 = 0x9123_683e;
    pub(super) const CIFS: i128 = 0xff53_4d42;
    pub(super) const EXFAT: i128 = 0x2011_bab0;
    /// That of ext2 and ext3, too.
    pub(super) const EXT4: i128 = 0xef53;
    pub(super) const F2FS: i128 = 0xf2f5_2010;
    /// The driver is a process.
    pub(super) const FUSE: i128 = 0x6573_5546;
    pub(super) const ISOFS: i128 = 0x9660;
    pub(super) const MSDOS: i128 = 0x4d44;
    pub(super) const NILFS: i128 = 0x3434;
    pub(super) const NTFS3: i128 = 0x7366_746e;
    pub(super) const RAMFS: i128 = 0x8584_58f6;
    pub(super) const SMB2: i128 = 0xfe53_4d42;
    pub(super) const TMPFS: i128 = 0x0102_1994;
    pub(super) const UDF: i128 = 0x1501_3346;
    pub(super) const V9FS: i128 = 0x0102_1997;
    pub(super) const XFS: i128 = 0x5846_5342;
}

use magic::{
    BTRFS, CIFS, EXFAT, EXT4, F2FS, FUSE, ISOFS, MSDOS, NILFS, NTFS3, RAMFS, SMB2, TMPFS, UDF,
    V9FS, XFS,
};

/// File systems whose files may have no owner, mode or extended attributes.
const FOREIGN: [i128; 6] = [FUSE, MSDOS, EXFAT, NTFS3, CIFS, SMB2];

/// File systems that the kernel keeps on a disk of this machine.
const ON_DISK: [i128; 10] = [
    EXT4, XFS, BTRFS, F2FS, NILFS, MSDOS, EXFAT, NTFS3, ISOFS, UDF,
];

/// Where a file system keeps its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Memory.
    Memory,
    /// A disk of this machine, which the kernel's own driver reads.
    Disk,
    /// Another file system, a server or a process, each of which may have a cache of its own.
    Elsewhere,
}

impl Storage {
    /// The storage of a file.
    pub(crate) fn of(file: impl AsFd) -> Self {
        match kind(file) {
            Some(TMPFS | RAMFS) => Self::Memory,
            Some(kind) if ON_DISK.contains(&kind) => Self::Disk,
            _ => Self::Elsewhere,
        }
    }
}

/// Whether files of this file system never share blocks.
pub(crate) fn never_shares_blocks(file: impl AsFd) -> bool {
    matches!(kind(file), Some(EXT4 | TMPFS))
}

/// Whether the file system is btrfs.
pub(crate) fn is_btrfs(file: impl AsFd) -> bool {
    kind(file) == Some(BTRFS)
}

/// Whether the driver of the file system is a process.
pub(crate) fn is_in_user_space(file: impl AsFd) -> bool {
    kind(file) == Some(FUSE)
}

/// Whether each file of the file system has an inode number of its own. Drivers that pass on the
/// numbers of others may show several file systems as one.
pub(crate) fn has_unique_inode_numbers(file: impl AsFd) -> bool {
    let passes_on = [FUSE, V9FS, CIFS, SMB2];
    kind(file).is_some_and(|kind| !passes_on.contains(&kind))
}

/// Whether files of the file system may lack attributes that Linux's own file systems have.
pub(crate) fn is_foreign(file: impl AsFd) -> bool {
    kind(file).is_some_and(|kind| FOREIGN.contains(&kind))
}

/// Whether `syncfs(2)` promises as much of each file of the file system as `fsync(2)` does: all
/// that was written before the call is on the disk when it returns, and an error of any write since
/// the descriptor was opened makes it fail.
///
/// # Kernel notes
///
/// These file systems commit their log and flush the disk's cache in either call. If the log cannot
/// be written, they refuse further writes, and either call fails. Without a log, `syncfs(2)` keeps
/// an error of an inode to itself. Network file systems and FUSE drivers are asked to flush by
/// `fsync(2)` alone. Before Linux 5.8 `syncfs(2)` returned no error of a write.
pub(crate) fn syncs_as_a_whole(file: impl AsFd) -> bool {
    let file = file.as_fd();
    let has_log = match kind(file) {
        Some(EXT4) => has_journal(file),
        Some(XFS | BTRFS | F2FS) => true,
        _ => false,
    };
    has_log && kernel_version() >= (5, 8)
}

/// Whether the ext4 file system of this file has a journal.
///
/// # Kernel notes
///
/// `/sys/fs/ext4/DISK/journal_task` exists if there is a journal. Without `/sys` there seems to be
/// none.
fn has_journal(file: impl AsFd) -> bool {
    let Ok(stat) = rustix::fs::fstat(file) else {
        return false;
    };
    let (major, minor) = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    let disk = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
    let disk = disk
        .ok()
        .and_then(|link| link.file_name().map(OsStr::to_owned));
    disk.is_some_and(|disk| {
        let file_system = Path::new("/sys/fs/ext4").join(disk);
        file_system.join("journal_task").exists()
    })
}

/// The first two numbers of the kernel's release, or zeros if it is not known.
fn kernel_version() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn kind(file: impl AsFd) -> Option<i128> {
    let found = rustix::fs::fstatfs(file).ok()?;
    // The type of `f_type` depends on the architecture. If it is a 32-bit integer, the value may be
    // negative.
    Some(i128::from(found.f_type) & 0xffff_ffff)
}

/// How many bytes of a file system its files take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accounting {
    /// Those of the blocks that are allocated to them, and holes take none. No two files share
    /// blocks, and none is compressed.
    Exact,
    /// The same, but files may share blocks, may be compressed, or may have none.
    Allocated,
    /// All bytes: there are no holes, and each name is a file of its own.
    Apparent,
}

impl Accounting {
    /// The bytes that a copy of a file takes at least, in a file system with blocks of this size.
    pub(crate) fn bytes(self, original: &Stat, block: u64) -> u64 {
        let size = size(original);
        match self {
            Self::Exact => size.next_multiple_of(block).min(allocated(original)),
            Self::Allocated => size.min(allocated(original)),
            Self::Apparent => size.next_multiple_of(block),
        }
    }
}

/// The bytes of the blocks of a file.
// The type of the field depends on the architecture.
#[allow(
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    reason = "never negative"
)]
pub(crate) fn allocated(stat: &Stat) -> u64 {
    (stat.st_blocks as u64).saturating_mul(512)
}

/// How the file system of an open file accounts for the space of its files.
pub(crate) fn accounting(file: impl AsFd) -> Accounting {
    match kind(file) {
        Some(EXT4 | TMPFS) => Accounting::Exact,
        Some(MSDOS | EXFAT) => Accounting::Apparent,
        _ => Accounting::Allocated,
    }
}
