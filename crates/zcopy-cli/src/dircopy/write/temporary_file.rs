//! A temporary file without a name.

use std::fs::File;
use std::io;

use rustix::fs::MemfdFlags;

use crate::common::cli::message;
use crate::common::cli::quote::quoted;

/// Makes an empty file in the directory for temporary files, or in memory if that fails.
///
/// # Errors
///
/// Both fail.
pub(crate) fn temporary_file() -> io::Result<File> {
    let in_memory = |_| {
        let flags = MemfdFlags::CLOEXEC;
        rustix::fs::memfd_create(c"zc-dircopy", flags).map(File::from)
    };
    Ok(tempfile::tempfile().or_else(in_memory)?)
}

/// Names the temporary file in the error of a write to it.
pub(crate) fn unwritten(error: &io::Error) -> io::Error {
    let message = message::worded(error);
    let directory = quoted(std::env::temp_dir().as_os_str());
    io::Error::new(
        error.kind(),
        format!("cannot write a temporary file in {directory}: {message}"),
    )
}
