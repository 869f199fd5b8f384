//! What is written to: standard output, and files.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::sys;

/// What standard output is called in messages.
pub(super) const STANDARD_OUTPUT: &str = "standard output";

/// One output.
pub(super) struct Output {
    pub(super) name: OsString,
    /// None is standard output, which the process does not own.
    file: Option<OwnedFd>,
}

impl Output {
    pub(super) fn standard() -> Self {
        Self {
            name: STANDARD_OUTPUT.into(),
            file: None,
        }
    }

    /// Opens a file to be written anew or appended to, and makes it if it is not there.
    pub(super) fn open(name: &OsStr, append: bool) -> io::Result<Self> {
        let start = if append {
            OFlags::APPEND
        } else {
            OFlags::TRUNC
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | start;
        let opened = rustix::fs::open(name, flags, Mode::from_raw_mode(0o666))?;
        let file = apart_from_the_standard_ones(opened)?;
        if append {
            append_to_files_alone(&file)?;
        }
        Ok(Self {
            name: name.to_owned(),
            file: Some(file),
        })
    }

    /// Whether it is open, and for writing. Files are. If its flags cannot be read, the first write tells.
    pub(super) fn takes_writes(&self) -> bool {
        match rustix::fs::fcntl_getfl(self) {
            Ok(flags) => flags & OFlags::ACCMODE != OFlags::RDONLY && !flags.contains(OFlags::PATH),
            Err(errno) => errno != Errno::BADF,
        }
    }

    /// Closes a file; standard output stays.
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

/// Where a standard descriptor is closed a file would come to stand in its place, and be read as
/// standard input or written to as standard output.
fn apart_from_the_standard_ones(file: OwnedFd) -> io::Result<OwnedFd> {
    const FIRST_OTHER: i32 = 3;
    if file.as_raw_fd() >= FIRST_OTHER {
        return Ok(file);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&file, FIRST_OTHER)?)
}

/// Takes the append mode off what has no end to append to: it means nothing there, but the kernel
/// offers no splice where it is on.
///
/// A pipe or character device gets what is written in the order of the writes either way. The mode is
/// that of this opening alone, and it is a file already when it is asked what it is, so that no one
/// can put another in its place in between.
fn append_to_files_alone(file: &OwnedFd) -> io::Result<()> {
    let status = rustix::fs::fstat(file)?;
    let kind = FileType::from_raw_mode(status.st_mode);
    if matches!(kind, FileType::Fifo | FileType::CharacterDevice) {
        let flags = rustix::fs::fcntl_getfl(file)?;
        // If it stays on, it costs speed alone.
        let _ = rustix::fs::fcntl_setfl(file, flags - OFlags::APPEND);
    }
    Ok(())
}
