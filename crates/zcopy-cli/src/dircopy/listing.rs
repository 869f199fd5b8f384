//! The names in a directory, as the kernel gives them.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;

/// How much is asked for at once, in bytes: a few hundred names.
const BLOCK: usize = 64 << 10;

/// How often in a row a call is repeated that was interrupted. Signals do not come so close together; a file system of somebody's own
/// (FUSE) may answer so for ever.
const MAX_INTERRUPTIONS: usize = 1000;

/// Shows every name but `.` and `..`, from where the descriptor stands. Its type may be unknown.
///
/// # Errors
///
/// What `getdents64(2)` says: `EINTR`, if it says nothing else; `ENOENT`, if the directory has been removed, or a server has lost it
/// midway. That is no end of the list, as `readdir(3)` takes it to be. What was shown before an error is good.
pub(super) fn each(
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::dircopy::ground::{open, scratch};

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
