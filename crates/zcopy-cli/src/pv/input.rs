//! One input: a file by its name, or standard input.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{FileType, OFlags, SeekFrom};

use super::device;
use crate::sys;

/// An input that is open.
#[derive(Debug)]
pub(crate) enum Input {
    Stdin,
    File(File),
}

impl Input {
    /// Opens a file, or standard input for `-`.
    pub(crate) fn open(name: &OsStr, is_direct: bool) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;
        if name == "-" {
            sys::check_open(rustix::stdio::stdin())?;
            return Ok(Self::Stdin);
        }
        if is_direct {
            let mut options = File::options();
            options
                .read(true)
                .custom_flags(OFlags::DIRECT.bits().cast_signed());
            // Not every file system knows how to pass its cache by.
            if let Ok(file) = options.open(name) {
                return Ok(Self::File(file));
            }
        }
        File::open(name).map(Self::File)
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stdin => rustix::stdio::stdin(),
            Self::File(file) => file.as_fd(),
        }
    }
}

/// The bytes that all inputs come to, if that can be known beforehand.
///
/// What cannot be opened counts for nothing: it is complained about when it has its turn.
pub(crate) fn total(names: &[OsString]) -> Option<u64> {
    let mut total = 0_u64;
    for name in names {
        let Ok(stat) = status(name) else {
            continue;
        };
        // Who opens a named pipe and lets go of it has made its writer give up.
        if !matches!(
            FileType::from_raw_mode(stat.st_mode),
            FileType::RegularFile | FileType::BlockDevice
        ) {
            return None;
        }
        let Ok(input) = Input::open(name, false) else {
            continue;
        };
        let part = remaining(input.as_fd())?;
        total = total.saturating_add(part);
    }
    Some(total)
}

/// What an input is, without opening it.
pub(crate) fn status(name: &OsStr) -> io::Result<rustix::fs::Stat> {
    if name == "-" {
        sys::check_open(rustix::stdio::stdin())?;
        return Ok(rustix::fs::fstat(rustix::stdio::stdin())?);
    }
    Ok(rustix::fs::stat(name)?)
}

/// What is left of a regular file or block device.
pub(crate) fn remaining(fd: BorrowedFd<'_>) -> Option<u64> {
    let stat = rustix::fs::fstat(fd).ok()?;
    let size = match FileType::from_raw_mode(stat.st_mode) {
        // Files of procfs and their like claim to be empty.
        FileType::RegularFile if stat.st_size > 0 => stat.st_size.unsigned_abs(),
        FileType::RegularFile if stat.st_blocks == 0 && is_on_disk(fd) => 0,
        FileType::BlockDevice => device::size(&stat)?,
        _ => return None,
    };
    let at = rustix::fs::seek(fd, SeekFrom::Current(0)).ok()?;
    Some(size.saturating_sub(at))
}

/// Whether this is one of the memory devices whose bytes never end (`null(4)`, `full(4)`, `random(4)`).
pub(crate) fn is_endless(fd: BorrowedFd<'_>) -> bool {
    const MEMORY: u32 = 1;
    const ZERO: u32 = 5;
    const FULL: u32 = 7;
    const RANDOM: u32 = 8;
    const URANDOM: u32 = 9;
    rustix::fs::fstat(fd).is_ok_and(|stat| {
        let device = stat.st_rdev;
        FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
            && rustix::fs::major(device) == MEMORY
            && matches!(rustix::fs::minor(device), ZERO | FULL | RANDOM | URANDOM)
    })
}

/// Whether an empty file may be believed to be.
fn is_on_disk(fd: BorrowedFd<'_>) -> bool {
    // procfs and sysfs have no blocks to give.
    rustix::fs::fstatfs(fd).is_ok_and(|fs| fs.f_blocks > 0)
}

/// As many bytes as there are in a file, or in all files under a directory.
pub(crate) fn size_as(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    if !file.metadata()?.is_dir() {
        let size = remaining(file.as_fd());
        return size.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported));
    }
    let files = walkdir::WalkDir::new(path).into_iter().flatten();
    let sizes = files
        .filter(|entry| !entry.file_type().is_dir())
        .filter_map(|entry| entry.metadata().ok());
    Ok(sizes.map(|metadata| metadata.len()).sum())
}
