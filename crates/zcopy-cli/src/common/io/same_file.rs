//! Comparison of an input and an output: whether they are the same file, and whether a copy between
//! them would end.
//!
//! This follows GNU cat 9.12, which compares positions: `cat f 1<> f` rewrites the file in place,
//! and `cat f >> f` is refused. GNU cat 9.1 refuses both.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, OFlags, SeekFrom, Stat};

/// Returns whether both are the same file, pipe or device.
pub(crate) fn is_same(input: &Stat, output: &Stat) -> bool {
    (input.st_dev, input.st_ino) == (output.st_dev, output.st_ino)
}

/// Returns whether the library refused a transfer because both ends are the same file.
pub(crate) fn is_pair_refused(error: &zcopy::Error) -> bool {
    error.is_refused() && error.side() == zcopy::Side::Neither
}

/// Returns whether both are the same file, block device or pipe, from which written bytes can be
/// read again.
pub(crate) fn is_same_file(input: &Stat, output: &Stat) -> bool {
    let kind = FileType::from_raw_mode(output.st_mode);
    let is_file = matches!(
        kind,
        FileType::RegularFile | FileType::BlockDevice | FileType::Fifo
    );
    is_file && is_same(input, output)
}

/// The relation of the positions at which one file is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The read position is at or behind the write position, so that no byte is read twice.
    InPlace,
    /// Written bytes would be read and written again, until the disk is full.
    Feedback,
}

/// Compares the read position of `input` with the write position of `output`. Both must be the same
/// file, or the same pipe, which has no positions.
///
/// # Errors
///
/// Returns an error if the position of the output is unknown.
pub(crate) fn relation(input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> io::Result<Relation> {
    let Ok(reads_at) = rustix::fs::seek(input, SeekFrom::Current(0)) else {
        return Ok(Relation::Feedback);
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
        Relation::Feedback
    } else {
        Relation::InPlace
    })
}
