//! Where the bytes go.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use rustix::fs::{FileType, OFlags};

use super::settings;
use crate::quote::quoted;
use crate::sys;

/// The output, open.
#[derive(Debug)]
pub(crate) enum Output {
    Stdout,
    File(File, PathBuf),
    Nowhere(File),
}

impl Output {
    /// Opens what the settings name. A file is not emptied yet: it may turn out to be an input.
    pub(crate) fn open(output: &settings::Output) -> io::Result<Self> {
        let mut options = File::options();
        options.write(true);
        match output {
            settings::Output::Stdout => {
                sys::check_open(rustix::stdio::stdout())?;
                Ok(Self::Stdout)
            }
            settings::Output::File(path) => {
                let file = options.create(true).truncate(false).open(path)?;
                Ok(Self::File(file, path.clone()))
            }
            settings::Output::Nowhere => options.open("/dev/null").map(Self::Nowhere),
        }
    }

    /// Empties a file that was named.
    pub(crate) fn replace(&self) -> io::Result<()> {
        match self {
            Self::File(file, _) if self.is(FileType::RegularFile) => file.set_len(0),
            _ => Ok(()),
        }
    }

    /// What messages call it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(_, path) => quoted(path.as_os_str()),
            Self::Stdout | Self::Nowhere(_) => "(stdout)".to_owned(),
        }
    }

    /// Closes it, where an error may be told at last.
    pub(crate) fn close(self) -> io::Result<()> {
        match self {
            Self::Stdout => sys::close_stdout(),
            Self::File(file, _) => sys::close_file(file.into()),
            Self::Nowhere(_) => Ok(()),
        }
    }

    /// Whether it is of this type.
    pub(crate) fn is(&self, wanted: FileType) -> bool {
        is(self.as_fd(), wanted)
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stdout => rustix::stdio::stdout(),
            Self::File(file, _) | Self::Nowhere(file) => file.as_fd(),
        }
    }
}

fn is(fd: BorrowedFd<'_>, wanted: FileType) -> bool {
    let stat = rustix::fs::fstat(fd);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == wanted)
}

/// Has a file be read or written past the page cache, where its file system can, until this is dropped.
///
/// The flag belongs to whoever else has the file open, too: they get it back as it was.
#[derive(Debug)]
pub(crate) struct Direct<'a> {
    fd: BorrowedFd<'a>,
    before: Option<OFlags>,
}

impl<'a> Direct<'a> {
    pub(crate) fn on(fd: BorrowedFd<'a>) -> Self {
        let set = |flags: OFlags| rustix::fs::fcntl_setfl(fd, flags | OFlags::DIRECT);
        // A pipe would be cut into packets, of which a reader loses what it does not take at once.
        let is_on_disk = is(fd, FileType::RegularFile) || is(fd, FileType::BlockDevice);
        let before = rustix::fs::fcntl_getfl(fd).ok().filter(|_| is_on_disk);
        let before = before.filter(|flags| !flags.contains(OFlags::DIRECT) && set(*flags).is_ok());
        Self { fd, before }
    }
}

impl Drop for Direct<'_> {
    fn drop(&mut self) {
        if let Some(flags) = self.before {
            // It was taken a moment ago.
            let _ = rustix::fs::fcntl_setfl(self.fd, flags);
        }
    }
}
