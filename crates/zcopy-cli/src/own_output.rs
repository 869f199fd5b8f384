//! What comes of it when an input is the very file that an output goes to.
//!
//! GNU cat 9.12 is followed here: it compares positions, so that `cat f 1<> f` rewrites the file in place and
//! `cat f >> f` is refused. GNU cat 9.1 refuses both.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, OFlags, SeekFrom, Stat};

/// Whether both are the same file, pipe or device.
pub(crate) fn is_same(input: &Stat, output: &Stat) -> bool {
    (input.st_dev, input.st_ino) == (output.st_dev, output.st_ino)
}

/// Whether both are the same, and what is written there can be read again: a file, a block device or a pipe.
pub(crate) fn is_same_file(input: &Stat, output: &Stat) -> bool {
    let kind = FileType::from_raw_mode(output.st_mode);
    let is_file = matches!(
        kind,
        FileType::RegularFile | FileType::BlockDevice | FileType::Fifo
    );
    is_file && is_same(input, output)
}

/// How a file is read and written at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It is read at or behind where it is written, so that no byte is read twice.
    Shifting,
    /// What is written would be read, and written again, until the disk is full.
    Growing,
}

/// Compares where `input` is read with where `output` is written. Both are the same
/// file, or the same pipe, which has no positions.
///
/// # Errors
///
/// If the output's position cannot be told.
pub(crate) fn relation(input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> io::Result<Relation> {
    let Ok(reads_at) = rustix::fs::seek(input, SeekFrom::Current(0)) else {
        return Ok(Relation::Growing);
    };
    let appends = rustix::fs::fcntl_getfl(output)?.contains(OFlags::APPEND);
    let writes_at = rustix::fs::seek(
        output,
        if appends {
            SeekFrom::End(0)
        } else {
            SeekFrom::Current(0)
        },
    )?;
    Ok(if reads_at < writes_at {
        Relation::Growing
    } else {
        Relation::Shifting
    })
}
