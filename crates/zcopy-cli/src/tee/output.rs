//! [`Output`]: standard output, or a file.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::common::sys;

/// The name of standard output in messages.
pub(super) const STANDARD_OUTPUT: &str = "standard output";

/// Standard output, or a file.
pub(super) struct Output {
    pub(super) name: OsString,
    /// `None` for standard output.
    file: Option<OwnedFd>,
}

impl Output {
    pub(super) fn standard() -> Self {
        Self {
            name: STANDARD_OUTPUT.into(),
            file: None,
        }
    }

    /// Opens a file to truncate it or append to it. Creates it if it does not exist.
    pub(super) fn open(name: &OsStr, append: bool) -> io::Result<Self> {
        let start = if append {
            OFlags::APPEND
        } else {
            OFlags::TRUNC
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | start;
        let opened = rustix::fs::open(name, flags, Mode::from_raw_mode(0o666))?;
        let file = above_standard_fds(opened)?;
        if append {
            clear_append_unless_file(&file)?;
        }
        Ok(Self {
            name: name.to_owned(),
            file: Some(file),
        })
    }

    /// Returns whether the descriptor is open for writing. If its flags cannot be read, the first
    /// write reports the error.
    pub(super) fn is_writable(&self) -> bool {
        match rustix::fs::fcntl_getfl(self) {
            Ok(flags) => flags & OFlags::ACCMODE != OFlags::RDONLY && !flags.contains(OFlags::PATH),
            Err(errno) => errno != Errno::BADF,
        }
    }

    /// Closes a file, and not standard output.
    pub(super) fn close(self) -> io::Result<()> {
        self.file.map_or(Ok(()), sys::close_file)
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.file {
            Some(file) => file.as_fd(),
            None => rustix::stdio::stdout(),
        }
    }
}

/// Moves a descriptor that has the number of a closed standard descriptor. Otherwise the file would
/// be read as standard input or written as standard output.
fn above_standard_fds(file: OwnedFd) -> io::Result<OwnedFd> {
    const FIRST_OTHER: i32 = 3;
    if file.as_raw_fd() >= FIRST_OTHER {
        return Ok(file);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&file, FIRST_OTHER)?)
}

/// Clears `O_APPEND` of a pipe or character device, where it has no effect but makes splice(2) fail
/// with `EINVAL`.
///
/// The flag belongs to this open file description, so nobody else loses it.
fn clear_append_unless_file(file: &OwnedFd) -> io::Result<()> {
    let status = rustix::fs::fstat(file)?;
    let kind = FileType::from_raw_mode(status.st_mode);
    if matches!(kind, FileType::Fifo | FileType::CharacterDevice) {
        let flags = rustix::fs::fcntl_getfl(file)?;
        // A failure costs only speed.
        let _ = rustix::fs::fcntl_setfl(file, flags - OFlags::APPEND);
    }
    Ok(())
}
