//! Lists the names in a directory in the order of the kernel.

use std::ffi::CStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Dir, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use crate::dircopy::write::atomic_file::temp_name::Leftovers;

/// The size of the buffer for `getdents64(2)`, in bytes. It has room for more than a thousand short
/// names.
const BLOCK: usize = 64 << 10;

/// The most times in a row that an interrupted call is repeated. Signals are not that frequent, but
/// a FUSE file system may answer `EINTR` for ever.
const MAX_INTERRUPTIONS: usize = 1000;

/// Calls `show` for every name except `.` and `..`, from the offset of the descriptor. The file
/// type may be unknown.
///
/// # Errors
///
/// Those of `getdents64(2)`: `EINTR`, if the call is interrupted again and again; `ENOENT`, if the
/// directory has been removed, or a server has lost it midway. `readdir(3)` takes that for the end
/// of the list. The names before an error are valid.
pub(crate) fn each(
    directory: BorrowedFd<'_>,
    mut show: impl FnMut(&CStr, FileType),
) -> Result<(), Errno> {
    let mut block = Vec::with_capacity(BLOCK);
    let mut entries = RawDir::new(directory, block.spare_capacity_mut());
    let mut interruptions = 0..MAX_INTERRUPTIONS;
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Err(Errno::INTR) if interruptions.next().is_some() => continue,
            entry => entry?,
        };
        interruptions = 0..MAX_INTERRUPTIONS;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            show(entry.file_name(), entry.file_type());
        }
    }
    Ok(())
}

/// The names in a directory that killed runs may have left.
///
/// # Errors
///
/// Those of `open(2)` and [`each`].
pub(crate) fn leftovers(directory: BorrowedFd<'_>) -> Result<Leftovers, Errno> {
    let listed = reopen(directory)?;
    let mut leftovers = Leftovers::default();
    each(listed.as_fd(), |name, kind| leftovers.add(name, kind))?;
    Ok(leftovers)
}

/// Whether a directory has no entries.
///
/// # Errors
///
/// Those of `open(2)` and `getdents64(2)`.
pub(super) fn is_empty(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    let entries = Dir::new(reopen(directory)?)?;
    for entry in entries {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Opens a directory again, with an offset of its own.
fn reopen(directory: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(directory, c".", flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::dircopy::test_support::{open, scratch};

    #[test]
    fn a_directory_that_has_been_removed_is_an_error_and_not_empty() {
        let scratch = scratch();
        let path = scratch.path().join("directory");
        fs::create_dir(&path).unwrap();
        let directory = open(&path);
        assert_eq!(each(directory.as_fd(), |_, _| {}), Ok(()));
        fs::remove_dir(&path).unwrap();
        assert_eq!(each(directory.as_fd(), |_, _| {}), Err(Errno::NOENT));
    }
}
