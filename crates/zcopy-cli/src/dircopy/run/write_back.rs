//! Write-back errors: the kernel writes pages to the disk after `write(2)` has returned.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::anyhow;
use rustix::io::Errno;

use crate::dircopy::copy::run_journal::RunJournal;
use crate::dircopy::reporter::Reporter;
use crate::dircopy::reporter::counts::Counts;
use crate::dircopy::write::atomic_file::{AtomicFile, Durability};

/// The error of a file that the kernel could not write.
const NOT_ON_DISK: &str = "its copy may not be on the disk";

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
}

/// Writes everything in the destination's file system to the disk, and reports what fails.
///
/// A file that failed keeps the digest of its original in the manifest, so that every check fails
/// until the copy is repaired.
///
/// # Kernel notes
///
/// `syncfs(2)` reports errors since the descriptor was opened (Linux 5.8), each once and without its
/// file. `fsync(2)` of a file that was opened after the error reports it, unless it was reported
/// before. So after an error, every file that this run has written is opened and synced.
pub(crate) fn write_back(
    reporter: &Reporter<'_>,
    counts: &Counts,
    destination: &OwnedFd,
    journal: &RunJournal<'_>,
    unwritten: &UnwrittenFiles,
    durability: Durability,
) {
    let error = match (rustix::fs::syncfs(destination), durability) {
        // A seccomp filter may refuse the call. Only a durable copy needs it.
        (Ok(()), _) | (Err(Errno::NOSYS | Errno::PERM), Durability::Cached) => return,
        (Err(error), _) => error,
    };
    let n_failed = counts.failed.get();
    report_failed_files(reporter, journal);
    // A file that could not be synced before has been reported.
    let was_reported = unwritten.has_failed.load(Ordering::Relaxed);
    let is_explained = was_reported || counts.failed.get() > n_failed;
    if !is_explained || rustix::fs::syncfs(destination).is_err() {
        let error = anyhow!(io::Error::from(error)).context("cannot bring the copy to the disk");
        reporter.report_error("".as_ref(), &error);
    }
}

/// Reports each file of this run that the kernel could not write.
fn report_failed_files(reporter: &Reporter<'_>, journal: &RunJournal<'_>) {
    journal.for_each_written(|path, file| {
        let synced = file.and_then(|file| Ok(rustix::fs::fsync(&file)?));
        if let Err(error) = synced {
            let error = anyhow!(error).context(NOT_ON_DISK);
            reporter.report_error(Path::new(OsStr::from_bytes(path)), &error);
        }
    });
}
