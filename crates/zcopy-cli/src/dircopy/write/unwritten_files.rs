//! Files that stay open because the disk did not take their contents.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

use super::atomic_file::AtomicFile;

/// The most files that are kept open because the disk did not take their contents.
pub(crate) const MAX_KEPT: usize = 8;

/// Files whose contents the disk did not take. They stay open until the end of the run, so that the
/// file system gives their blocks, which may be bad, to no other file.
#[derive(Debug)]
pub(crate) struct UnwrittenFiles {
    files: Mutex<Vec<AtomicFile<Arc<OwnedFd>>>>,
    most: usize,
    has_failed: AtomicBool,
}

impl UnwrittenFiles {
    /// Keeps no more than this many.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            files: Mutex::default(),
            most,
            has_failed: AtomicBool::new(false),
        }
    }

    /// Keeps a file that failed with `EIO`, unless there are many. A full disk needs the space.
    pub(crate) fn keep(&self, file: AtomicFile<Arc<OwnedFd>>, error: &io::Error) {
        if error.raw_os_error() != Some(Errno::IO.raw_os_error()) {
            return;
        }
        self.has_failed.store(true, Ordering::Relaxed);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() < self.most {
            files.push(file);
        }
    }

    /// Whether a file failed, kept or not.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }
}
