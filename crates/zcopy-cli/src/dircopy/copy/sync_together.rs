//! Brings the copies of a group to the disk by one call.
//!
//! The promise is that of `fsync(2)` for each file and its directory: a file has its name when its
//! contents and attributes are on the disk, and the name is on the disk when the group ends.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

/// Fewer files are brought to the disk one by one: `syncfs(2)` also waits for what other programs
/// have written to the file system.
const MIN_FILES: usize = 4;

/// Brings files that are created after it to the disk together.
#[derive(Debug)]
pub(super) struct GroupSync {
    /// The directory of the files, opened before them: `syncfs(2)` reports the errors since then,
    /// and other threads that sync the file system take none of them away.
    directory: OwnedFd,
}

impl GroupSync {
    /// Prepares for up to `n_files` files that are going to be created in this directory. Returns
    /// `None` if each has to be synced by itself.
    pub(super) fn begin(directory: BorrowedFd<'_>, n_files: usize) -> Option<Self> {
        if n_files < MIN_FILES {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Without the descriptor, each file is synced by itself.
        let directory = rustix::fs::openat(directory, c".", flags, Mode::empty()).ok()?;
        Some(Self { directory })
    }

    /// Brings `n_files` files to the disk. Returns whether all of them are there.
    ///
    /// If not, each has to be synced by itself: there may be few of them, or one has failed.
    /// `fsync(2)` says which one, as its descriptor has not been told of the error.
    pub(super) fn sync_files(&self, n_files: usize) -> bool {
        n_files >= MIN_FILES && rustix::fs::syncfs(&self.directory).is_ok()
    }

    /// Brings the names that the directory has now to the disk.
    ///
    /// # Errors
    ///
    /// Those of `fsync(2)`.
    pub(super) fn sync_names(&self) -> std::io::Result<()> {
        Ok(rustix::fs::fsync(self.directory.as_fd())?)
    }
}
