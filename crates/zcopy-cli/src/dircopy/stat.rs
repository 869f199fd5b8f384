//! Facts of `stat(2)`: the type, the permissions, the identity and the size of a file.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, StatxFlags};

pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

pub(crate) fn is_regular(stat: &Stat) -> bool {
    file_type(stat) == FileType::RegularFile
}

pub(crate) fn is_directory(stat: &Stat) -> bool {
    file_type(stat) == FileType::Directory
}

/// All 12 bits, with set-user-ID, set-group-ID and sticky.
pub(crate) fn permissions(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o7777)
}

/// The identity of a file: device and inode number.
pub(crate) type Identity = (u64, u64);

/// The identity of the file that a status describes.
// The types of the fields depend on the architecture.
#[allow(clippy::useless_conversion, reason = "not on every processor")]
pub(crate) fn identity(stat: &Stat) -> Identity {
    (stat.st_dev.into(), stat.st_ino.into())
}

/// When a file was created: `stx_btime` of `statx(2)`. It tells a file from a later one that has
/// got the inode number of a removed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Birth {
    seconds: i64,
    nanoseconds: u32,
}

impl Birth {
    /// The time of creation of an open file, if the file system has it.
    pub(crate) fn of(file: impl AsFd) -> Option<Self> {
        Self::find(file, c"", AtFlags::EMPTY_PATH)
    }

    /// The same for a name in a directory. A symbolic link is not followed.
    pub(crate) fn of_name(directory: impl AsFd, name: &CStr) -> Option<Self> {
        Self::find(directory, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn find(directory: impl AsFd, name: &CStr, at: AtFlags) -> Option<Self> {
        let flags = StatxFlags::BTIME;
        let stat = rustix::fs::statx(directory, name, at, flags).ok()?;
        let is_told = stat.stx_mask & flags.bits() != 0;
        is_told.then_some(Self {
            seconds: stat.stx_btime.tv_sec,
            nanoseconds: stat.stx_btime.tv_nsec,
        })
    }
}

/// The size of a file in bytes.
pub(crate) fn size(stat: &Stat) -> u64 {
    // The kernel gives no negative size.
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Opens a regular file in a directory of the destination. Does not follow a symbolic link.
pub(crate) fn open_regular(directory: impl AsFd, name: &CStr) -> io::Result<(File, Stat)> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    if !is_regular(&stat) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok((file.into(), stat))
}
