//! Whether a file has changed since it was examined.

use std::fs::File;
use std::io;

use rustix::fs::Stat;

use super::mtime::Time;
use super::stat::identity;

/// The change of a file since it was examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    None,
    /// Only the time of change: another attribute, or the number of names, has changed. Over FUSE,
    /// the kernel may have guessed the earlier time before the driver reported it.
    Attributes,
    /// The size, the modification time, or the file itself.
    Contents,
}

/// Compares a file with its state before.
pub(crate) fn changes(file: &File, before: &Stat) -> io::Result<Changes> {
    let after = rustix::fs::fstat(file)?;
    let version = |stat: &Stat| (identity(stat), stat.st_size, Time::modified(stat));
    let changed = |stat: &Stat| (stat.st_ctime, stat.st_ctime_nsec);
    Ok(if version(before) != version(&after) {
        Changes::Contents
    } else if changed(before) != changed(&after) {
        Changes::Attributes
    } else {
        Changes::None
    })
}
