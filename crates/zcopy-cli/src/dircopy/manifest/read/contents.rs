//! The bytes of a manifest, which may be in two files.

use std::fs::File;
use std::io::{self, BufRead};
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::common::cli::message;
use crate::dircopy::stat::size;
use crate::dircopy::stat::{file_type, is_regular};

fn is_symlink(directory: BorrowedFd<'_>, name: impl Arg) -> bool {
    let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|stat| file_type(&stat) == FileType::Symlink)
}

/// The next byte of a source, without consuming it.
///
/// # Errors
///
/// The source cannot be read.
pub(crate) fn peek(source: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        match source.fill_buf() {
            Ok(ahead) => return Ok(ahead.first().copied()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Why a file with the name of a manifest is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotRegular {
    #[error("it is a symbolic link")]
    Symlink,
    #[error("it is not a regular file")]
    Other,
}

/// Opens a regular file in a directory, without following symbolic links. Returns it and its size.
///
/// # Errors
///
/// The errors of `open(2)` and `fstat(2)`; the file is not regular.
pub(crate) fn open_regular(
    directory: BorrowedFd<'_>,
    name: impl Arg + Copy,
) -> io::Result<(File, u64)> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Err(Errno::LOOP) if is_symlink(directory, name) => {
            return Err(io::Error::other(NotRegular::Symlink));
        }
        opened => opened?,
    };
    // The errno is dropped, so that no caller takes it for one of `open(2)`.
    let stat = rustix::fs::fstat(&opened);
    let stat = stat.map_err(|errno| io::Error::other(message::worded(&io::Error::from(errno))))?;
    if !is_regular(&stat) {
        return Err(io::Error::other(NotRegular::Other));
    }
    Ok((opened.into(), size(&stat)))
}
