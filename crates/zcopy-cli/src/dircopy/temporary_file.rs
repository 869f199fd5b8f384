//! A temporary file without a name.

use std::fs::File;
use std::io;

use rustix::fs::MemfdFlags;

/// Makes an empty file in the directory for temporary files, or in memory if that fails.
///
/// # Errors
///
/// Both fail.
pub(super) fn temporary_file() -> io::Result<File> {
    let in_memory = |_| {
        let flags = MemfdFlags::CLOEXEC;
        rustix::fs::memfd_create(c"zc-dircopy", flags).map(File::from)
    };
    Ok(tempfile::tempfile().or_else(in_memory)?)
}
