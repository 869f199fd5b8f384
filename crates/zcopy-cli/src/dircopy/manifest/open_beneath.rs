//! Files that are opened where a manifest says, and never outside of the tree that it speaks of.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// How often a path is looked up again that was renamed meanwhile.
const TRIES: u32 = 64;

/// The longest path that the kernel takes in one call, with the NUL behind it (`PATH_MAX`).
const LONGEST: usize = 4096;

/// A directory, so that files beneath it can be opened.
///
/// # Errors
///
/// It is none, or cannot be found.
pub(super) fn directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens a regular file beneath the directory.
///
/// What is not regular is not opened: a FIFO would wait for its writer, and opening a device may do something to it.
///
/// # Errors
///
/// As `open(2)`; and if the path is absolute, or leads out of the directory by `..` or by a symbolic link; if it is no regular file.
///
/// # Kernel notes
///
/// `RESOLVE_BENEATH` lets symbolic links and `..` pass that stay beneath the directory. Where there is no `openat2(2)` (before Linux
/// 5.6, or in a sandbox that forbids it, some of which say `EPERM`), and for paths of 4096 bytes and more, which no call takes, every directory on
/// the way is opened by itself, and all symbolic links and `..` are refused.
///
/// # References
/// - [openat2(2)](https://man7.org/linux/man-pages/man2/openat2.2.html)
pub(super) fn open(directory: BorrowedFd<'_>, path: &[u8]) -> io::Result<File> {
    let opened = if path.len() < LONGEST {
        refuse_special(directory, path, AtFlags::NO_AUTOMOUNT)?;
        match at_once(directory, path) {
            Err(Errno::NOSYS | Errno::PERM) => by_steps(directory, path)?,
            opened => opened.map_err(worded)?,
        }
    } else {
        by_steps(directory, path)?
    };
    Ok(opened.into())
}

fn at_once(directory: BorrowedFd<'_>, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 1..TRIES {
        match rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve) {
            // A directory above a `..` was renamed, and it could not be told where that leads.
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
    rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve)
}

fn by_steps(directory: BorrowedFd<'_>, path: &[u8]) -> io::Result<OwnedFd> {
    if path.starts_with(b"/") {
        return Err(outside());
    }
    let mut names = path
        .split(|byte| *byte == b'/')
        .filter(|name| !matches!(*name, b"" | b"."));
    let last = names.next_back().ok_or(Errno::ISDIR)?;
    let mut above = None;
    for name in names {
        let here = above.as_ref().map_or(directory, OwnedFd::as_fd);
        above = Some(step(here, name, OFlags::PATH | OFlags::DIRECTORY)?);
    }
    let here = above.as_ref().map_or(directory, OwnedFd::as_fd);
    refuse_special(here, last, AtFlags::SYMLINK_NOFOLLOW)?;
    step(here, last, OFlags::RDONLY | OFlags::NOCTTY)
}

/// What a path stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    RegularFile,
    /// A directory, a symbolic link or a special file.
    Other,
    Nothing,
}

/// What a path beneath the directory stands for, if no symbolic link on the way is followed.
///
/// # Errors
///
/// What `open(2)` and `stat(2)` say, unless it is that there is nothing.
pub(super) fn find(directory: BorrowedFd<'_>, path: &[u8]) -> io::Result<Found> {
    match stat_by_steps(directory, path) {
        Ok(Some(stat)) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
            Ok(Found::RegularFile)
        }
        Ok(_) => Ok(Found::Other),
        Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(Found::Nothing),
            _ => Err(error),
        },
    }
}

/// How many bytes a file beneath the directory has.
///
/// # Errors
///
/// What `open(2)` and `stat(2)` say.
pub(super) fn size(directory: BorrowedFd<'_>, path: &[u8]) -> io::Result<u64> {
    let stat = if path.len() < LONGEST {
        Some(rustix::fs::statat(
            directory,
            path,
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    } else {
        stat_by_steps(directory, path)?
    };
    // No size is negative.
    Ok(stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0)))
}

/// What bears a path, if no symbolic link on the way is followed. `None` for the directory itself.
fn stat_by_steps(directory: BorrowedFd<'_>, path: &[u8]) -> io::Result<Option<Stat>> {
    let mut names = path
        .split(|byte| *byte == b'/')
        .filter(|name| !matches!(*name, b"" | b"."));
    let Some(last) = names.next_back() else {
        return Ok(None);
    };
    let mut above = None;
    for name in names {
        let here = above.as_ref().map_or(directory, OwnedFd::as_fd);
        above = Some(step(here, name, OFlags::PATH | OFlags::DIRECTORY)?);
    }
    let here = above.as_ref().map_or(directory, OwnedFd::as_fd);
    Ok(Some(rustix::fs::statat(
        here,
        last,
        AtFlags::SYMLINK_NOFOLLOW,
    )?))
}

/// Opens one name that is neither a way out nor a symbolic link.
fn step(directory: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    if name == b".." {
        return Err(outside());
    }
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::io::retry_on_intr(|| rustix::fs::openat(directory, name, flags, Mode::empty()))
        .map_err(Into::into)
}

/// What cannot even be looked at is left to be refused by opening it.
fn refuse_special(directory: BorrowedFd<'_>, path: &[u8], flags: AtFlags) -> io::Result<()> {
    let Ok(status) = rustix::fs::statat(directory, path, flags) else {
        return Ok(());
    };
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile | FileType::Symlink => Ok(()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        _ => Err(io::Error::other("not a regular file")),
    }
}

/// The kernel's word for a path that leads out is that of a link between file systems.
fn worded(errno: Errno) -> io::Error {
    match errno {
        Errno::XDEV => outside(),
        errno => errno.into(),
    }
}

fn outside() -> io::Error {
    io::Error::other("it leads out of the directory")
}

#[cfg(test)]
mod tests;
