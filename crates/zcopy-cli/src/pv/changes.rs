//! What a run changes that outlives it, and takes back at its end, whichever that is.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FileType, OFlags};
use zcopy::Side;

use super::pidfile::Pidfile;
use crate::sys;

/// What a run changes that outlives it. All of it is taken back when this is dropped, if not before.
#[derive(Debug)]
pub(crate) struct Changes {
    pidfile: Option<Pidfile>,
    direct: Mutex<Vec<Direct>>,
}

impl Changes {
    /// The pidfile is there, and nothing else has been changed.
    pub(crate) fn with(pidfile: Option<Pidfile>) -> Self {
        Self {
            pidfile,
            direct: Mutex::default(),
        }
    }

    /// Has these files be read or written past the page cache, where their file systems can, until what comes of
    /// it is dropped.
    pub(crate) fn direct(&self, input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> DirectFlags<'_> {
        for (fd, side) in [(input, Side::Source), (output, Side::Sink)] {
            self.lock().extend(Direct::on(fd, side));
        }
        DirectFlags(self)
    }

    /// Takes everything back before the process ends here and now. Whoever wants to change something meanwhile
    /// waits for that.
    pub(crate) fn take_back_for_good(&self) {
        if let Some(pidfile) = &self.pidfile {
            pidfile.remove();
        }
        let mut direct = self.lock();
        direct.clear();
        std::mem::forget(direct);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Direct>> {
        self.direct.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For as long as this lives, files are read and written past the page cache.
#[derive(Debug)]
pub(crate) struct DirectFlags<'a>(&'a Changes);

impl DirectFlags<'_> {
    /// Takes the flags back.
    ///
    /// # Errors
    ///
    /// What `close(2)` says of the output. Over a network this may be the only word of a write that
    /// failed: the descriptor that is closed after it hears nothing any more.
    pub(crate) fn take_back(self) -> io::Result<()> {
        let mut outcome = Ok(());
        for direct in self.0.lock().drain(..) {
            outcome = outcome.and(direct.close());
        }
        outcome
    }
}

impl Drop for DirectFlags<'_> {
    fn drop(&mut self) {
        self.0.lock().clear();
    }
}

/// A file that is read or written past the page cache until this is dropped.
///
/// The flag belongs to whoever else has the file open, too: they get it back as it was.
#[derive(Debug)]
struct Direct {
    /// `None` once it is closed.
    fd: Option<OwnedFd>,
    before: OFlags,
    side: Side,
}

impl Direct {
    /// Nothing, if that is so already, or the file system cannot.
    fn on(fd: BorrowedFd<'_>, side: Side) -> Option<Self> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(fd).ok()?.st_mode);
        // A pipe would be cut into packets, of which a reader loses what it does not take at once.
        let is_on_disk = matches!(kind, FileType::RegularFile | FileType::BlockDevice);
        let before = rustix::fs::fcntl_getfl(fd).ok()?;
        if !is_on_disk || before.contains(OFlags::DIRECT) {
            return None;
        }
        // Of the same open file, so that it can be given back from another thread.
        let fd = fd.try_clone_to_owned().ok()?;
        rustix::fs::fcntl_setfl(&fd, before | OFlags::DIRECT).ok()?;
        Some(Self {
            fd: Some(fd),
            before,
            side,
        })
    }

    /// Takes the flag back, and closes the descriptor.
    ///
    /// # Errors
    ///
    /// What `close(2)` says of the output. Closing an input loses no bytes.
    fn close(mut self) -> io::Result<()> {
        let closed = self.take_back().map_or(Ok(()), sys::close_file);
        match self.side {
            Side::Sink => closed,
            _ => Ok(()),
        }
    }

    /// Takes the flag back.
    fn take_back(&mut self) -> Option<OwnedFd> {
        let fd = self.fd.take()?;
        // It was taken a moment ago.
        let _ = rustix::fs::fcntl_setfl(fd.as_fd(), self.before);
        Some(fd)
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.take_back();
    }
}
