//! Write-back errors: the kernel writes pages to the disk after `write(2)` has returned.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::anyhow;
use rustix::io::Errno;

use crate::dircopy::copy::run_journal::RunJournal;
use crate::dircopy::counts::Counts;
use crate::dircopy::reporter::Reporter;
use crate::dircopy::write::atomic_file::Durability;
use crate::dircopy::write::unwritten_files::UnwrittenFiles;

/// The error of a file that the kernel could not write.
const NOT_ON_DISK: &str = "its copy may not be on the disk";

/// Writes everything in the destination's file system to the disk, and reports what fails.
///
/// A file that failed keeps the digest of its original in the manifest, so that every check fails
/// until the copy is repaired.
///
/// # Kernel notes
///
/// `syncfs(2)` reports errors since the descriptor was opened (Linux 5.8), each once and without
/// its file. `fsync(2)` of a file that was opened after the error reports it, unless it was
/// reported before. So after an error, every file that this run has written is opened and synced.
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
    let was_reported = unwritten.has_failed();
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
