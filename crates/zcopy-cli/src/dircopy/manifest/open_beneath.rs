//! Opens files at the paths of a manifest, and never outside of its tree.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::dircopy::stat::size as stat_size;
use crate::dircopy::stat::{file_type, is_regular};

/// How often the lookup of a path is repeated if it is renamed meanwhile.
const TRIES: u32 = 64;

/// The longest path that the kernel takes in one call, with the NUL behind it (`PATH_MAX`).
const LONGEST: usize = 4096;

/// Opens a directory, so that files beneath it can be opened.
///
/// # Errors
///
/// The errors of `open(2)`.
pub(crate) fn directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens a regular file beneath the directory.
///
/// Other files are not opened: a FIFO would wait for its writer, and opening a device may change
/// its state.
///
/// # Errors
///
/// The errors of `open(2)`. The path is absolute, or leads out of the directory by `..` or by a
/// symbolic link. The file is not regular.
///
/// # Kernel notes
///
/// `RESOLVE_BENEATH` permits symbolic links and `..` that stay beneath the directory. Two cases
/// open every directory on the way by itself, and refuse all symbolic links and `..`: there is no
/// `openat2(2)` (before Linux 5.6, or in a sandbox; some sandboxes return `EPERM`), or the path has
/// 4096 bytes or more, which no call takes.
///
/// # References
/// - [openat2(2)](https://man7.org/linux/man-pages/man2/openat2.2.html)
pub(crate) fn open(directory: BorrowedFd<'_>, path: &[u8]) -> io::Result<File> {
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
    let parent = match Parent::open(directory, path) {
        // The kernel's error of a link where a directory should be.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
            Err(Errno::NOTDIR.into())
        }
        parent => parent,
    };
    let parent = parent?.ok_or(Errno::ISDIR)?;
    let here = parent.directory(directory);
    refuse_special(here, parent.name, AtFlags::SYMLINK_NOFOLLOW)?;
    step(here, parent.name, OFlags::RDONLY | OFlags::NOCTTY)
}

/// The directory in which the last name of a path is looked up.
struct Parent<'a> {
    /// `None` if the path has one name.
    opened: Option<OwnedFd>,
    name: &'a [u8],
}

impl<'a> Parent<'a> {
    /// Opens every directory on the way by itself. Returns `None` if the path has no name.
    fn open(directory: BorrowedFd<'_>, path: &'a [u8]) -> io::Result<Option<Self>> {
        let mut names = path
            .split(|byte| *byte == b'/')
            .filter(|name| !matches!(*name, b"" | b"."));
        let Some(last) = names.next_back() else {
            return Ok(None);
        };
        let mut parent = Self {
            opened: None,
            name: last,
        };
        for name in names {
            let here = parent.directory(directory);
            let opened = match step(here, name, OFlags::PATH | OFlags::DIRECTORY) {
                // The kernel's error would be `ENOTDIR`, as for a file.
                Err(_) if is_symlink(here, name) => return Err(Errno::LOOP.into()),
                opened => opened?,
            };
            parent.opened = Some(opened);
        }
        Ok(Some(parent))
    }

    fn directory<'d>(&'d self, root: BorrowedFd<'d>) -> BorrowedFd<'d> {
        self.opened.as_ref().map_or(root, OwnedFd::as_fd)
    }
}

/// Opens the directory of a path for lookups. Returns the last name too. No symbolic link is
/// followed.
///
/// # Errors
///
/// The errors of `open(2)`; the path has no name, or leads through `..` or a symbolic link.
pub(crate) fn parent(directory: BorrowedFd<'_>, path: &[u8]) -> io::Result<(OwnedFd, CString)> {
    let parent = Parent::open(directory, path)?.ok_or(Errno::ISDIR)?;
    let name = CString::new(parent.name)?;
    let opened = match parent.opened {
        Some(opened) => opened,
        None => directory.try_clone_to_owned()?,
    };
    Ok((opened, name))
}

/// The kind of file that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    RegularFile,
    /// A directory, a symbolic link or a special file.
    Other,
    /// A symbolic link is on the way.
    BehindLink,
    Nothing,
}

/// Looks up a path beneath the directory without following symbolic links.
///
/// # Errors
///
/// The errors of `open(2)` and `stat(2)`, except those for a path that does not exist.
pub(crate) fn find(directory: BorrowedFd<'_>, path: &[u8]) -> io::Result<Found> {
    match stat_by_steps(directory, path) {
        Ok(Some(stat)) if is_regular(&stat) => Ok(Found::RegularFile),
        Ok(_) => Ok(Found::Other),
        Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT | Errno::NOTDIR) => Ok(Found::Nothing),
            Some(Errno::LOOP) => Ok(Found::BehindLink),
            _ => Err(error),
        },
    }
}

/// The size of a file in bytes, for a display: `..` and symbolic links to directories are followed,
/// even out of the directory.
///
/// # Errors
///
/// The errors of `open(2)` and `stat(2)`.
pub(crate) fn size(directory: BorrowedFd<'_>, path: &[u8]) -> io::Result<u64> {
    let stat = if path.len() < LONGEST {
        Some(rustix::fs::statat(
            directory,
            path,
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    } else {
        stat_by_steps(directory, path)?
    };
    Ok(stat.map_or(0, |stat| stat_size(&stat)))
}

/// When a file was changed last (its `ctime`), without following symbolic links: seconds and
/// nanoseconds.
///
/// # Errors
///
/// The errors of `open(2)` and `stat(2)`.
pub(crate) fn changed(directory: BorrowedFd<'_>, path: &[u8]) -> io::Result<(i64, u64)> {
    let stat = stat_by_steps(directory, path)?.ok_or(Errno::ISDIR)?;
    Ok((stat.st_ctime, stat.st_ctime_nsec))
}

/// The status of a path below the directory, without following symbolic links.
///
/// # Errors
///
/// The errors of `open(2)` and `stat(2)`.
pub(crate) fn stat(directory: BorrowedFd<'_>, path: &[u8]) -> io::Result<Stat> {
    Ok(stat_by_steps(directory, path)?.ok_or(Errno::ISDIR)?)
}

/// The status of a path without following symbolic links. `None` for the directory itself.
fn stat_by_steps(directory: BorrowedFd<'_>, path: &[u8]) -> io::Result<Option<Stat>> {
    let Some(parent) = Parent::open(directory, path)? else {
        return Ok(None);
    };
    let here = parent.directory(directory);
    let stat = rustix::fs::statat(here, parent.name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(Some(stat))
}

/// Opens one name. Refuses `..` and symbolic links.
fn step(directory: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    if name == b".." {
        return Err(outside());
    }
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::io::retry_on_intr(|| rustix::fs::openat(directory, name, flags, Mode::empty()))
        .map_err(Into::into)
}

fn is_symlink(directory: BorrowedFd<'_>, name: &[u8]) -> bool {
    let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|stat| file_type(&stat) == FileType::Symlink)
}

/// Refuses files that are not regular. If `stat(2)` fails, opening the file will fail too.
fn refuse_special(directory: BorrowedFd<'_>, path: &[u8], flags: AtFlags) -> io::Result<()> {
    let Ok(status) = rustix::fs::statat(directory, path, flags) else {
        return Ok(());
    };
    match file_type(&status) {
        FileType::RegularFile | FileType::Symlink => Ok(()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        _ => Err(io::Error::other("not a regular file")),
    }
}

/// The error of `openat2(2)`. For a path that leads out the kernel returns `EXDEV`, whose message
/// speaks of links between file systems.
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
