//! A file under construction whose bytes are written in blocks.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::Mode;
use rustix::io::Errno;

use crate::dircopy::walk::listing::leftovers;
use crate::dircopy::write::atomic_file::AtomicFile;

/// How much is written at once, in bytes.
pub(crate) const BLOCK: usize = 64 << 10;

/// A file under construction.
#[derive(Debug)]
pub(crate) struct BufferedFile {
    pub(crate) new_file: AtomicFile<Arc<OwnedFd>>,
    /// The bytes that are not in the file yet.
    pub(crate) buffer: Vec<u8>,
}

/// Removes the files under construction that killed runs have left in a directory.
///
/// # Errors
///
/// The directory cannot be listed.
pub(crate) fn remove_leftovers(directory: BorrowedFd<'_>) -> io::Result<()> {
    leftovers(directory)?.remove(directory, |_| false);
    Ok(())
}

impl BufferedFile {
    /// Creates an empty file without a name in a directory. It has this mode if the file system
    /// allows that.
    ///
    /// # Errors
    ///
    /// Those of `open(2)`, and those of `fchmod(2)` that are no refusal.
    pub(crate) fn begin(directory: &Arc<OwnedFd>, mode: Mode) -> io::Result<Self> {
        let new_file = AtomicFile::new(Arc::clone(directory))?;
        match rustix::fs::fchmod(&new_file, mode) {
            // On a disk that was mounted for another user all files belong to that user, and have
            // one mode.
            Ok(()) | Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(errno) => return Err(errno.into()),
        }
        let buffer = Vec::with_capacity(BLOCK);
        Ok(Self { new_file, buffer })
    }

    /// Writes the buffer.
    ///
    /// # Errors
    ///
    /// Those of `write(2)`.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut file = self.new_file.file();
        file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the buffer if it is full.
    ///
    /// # Errors
    ///
    /// Those of `write(2)`.
    pub(crate) fn flush_block(&mut self) -> io::Result<()> {
        if self.buffer.len() >= BLOCK {
            self.flush()?;
        }
        Ok(())
    }

    /// The file.
    pub(crate) fn file(&self) -> &File {
        self.new_file.file()
    }
}
