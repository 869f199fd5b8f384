//! An input: a file or standard input.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{FileType, OFlags, SeekFrom, Stat};

use crate::common::sys;
use crate::pv::transfer::block_device;

/// An open input.
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
            // Some file systems do not support O_DIRECT.
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

/// Returns the size of all inputs in bytes, if it is known.
///
/// It is unknown if an input cannot be opened, as for pv. That is reported when the input is
/// copied. It is also unknown if the size of any input is, where pv forgets only the inputs before
/// that one. `/dev/null` is empty.
pub(crate) fn total(names: &[OsString]) -> Option<u64> {
    let mut total = 0_u64;
    for name in names {
        let stat = status(name).ok()?;
        if memory_device(&stat) == Some(NULL) {
            continue;
        }
        // Opening and closing a named pipe would make its writer fail.
        if !matches!(
            FileType::from_raw_mode(stat.st_mode),
            FileType::RegularFile | FileType::BlockDevice
        ) {
            return None;
        }
        let input = Input::open(name, false).ok()?;
        let part = remaining(input.as_fd())?;
        total = total.saturating_add(part);
    }
    Some(total)
}

/// Returns the status of an input, without opening it.
pub(crate) fn status(name: &OsStr) -> io::Result<Stat> {
    if name == "-" {
        sys::check_open(rustix::stdio::stdin())?;
        return Ok(rustix::fs::fstat(rustix::stdio::stdin())?);
    }
    Ok(rustix::fs::stat(name)?)
}

/// Returns the rest of a regular file or block device in bytes.
pub(crate) fn remaining(fd: BorrowedFd<'_>) -> Option<u64> {
    let stat = rustix::fs::fstat(fd).ok()?;
    let size = match FileType::from_raw_mode(stat.st_mode) {
        // Files of procfs and similar file systems claim to be empty.
        FileType::RegularFile if stat.st_size > 0 => stat.st_size.unsigned_abs(),
        FileType::RegularFile if stat.st_blocks == 0 && is_on_disk(fd) => 0,
        FileType::BlockDevice => block_device::size(&stat)?,
        _ => return None,
    };
    let at = rustix::fs::seek(fd, SeekFrom::Current(0)).ok()?;
    Some(size.saturating_sub(at))
}

/// The minor number of `/dev/null`.
const NULL: u32 = 3;

/// Returns the minor number of a memory device (`null(4)`, `full(4)`, `random(4)`).
fn memory_device(stat: &Stat) -> Option<u32> {
    const MEMORY: u32 = 1;
    let is_character_device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
    let is_memory = is_character_device && rustix::fs::major(stat.st_rdev) == MEMORY;
    is_memory.then(|| rustix::fs::minor(stat.st_rdev))
}

/// Returns whether this is a memory device whose bytes never end.
pub(crate) fn is_endless(fd: BorrowedFd<'_>) -> bool {
    const ZERO: u32 = 5;
    const FULL: u32 = 7;
    const RANDOM: u32 = 8;
    const URANDOM: u32 = 9;
    let device = rustix::fs::fstat(fd).ok();
    let device = device.as_ref().and_then(memory_device);
    matches!(device, Some(ZERO | FULL | RANDOM | URANDOM))
}

/// Returns whether the size of a file is reliable even if it is 0.
fn is_on_disk(fd: BorrowedFd<'_>) -> bool {
    // procfs and sysfs have no blocks.
    rustix::fs::fstatfs(fd).is_ok_and(|fs| fs.f_blocks > 0)
}

/// Returns the size of a file, or of all files under a directory.
pub(crate) fn size_as(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    if !file.metadata()?.is_dir() {
        return Ok(remaining(file.as_fd()).unwrap_or(0));
    }
    let files = walkdir::WalkDir::new(path).into_iter().flatten();
    let sizes = files
        .filter(|entry| !entry.file_type().is_dir())
        .filter_map(|entry| entry.metadata().ok());
    Ok(sizes.map(|metadata| metadata.len()).sum())
}
