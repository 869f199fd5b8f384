//! What gets a name in the destination once it is whole, and not before.
//!
//! However the process ends, a name stands for what it stood for before, or for all of what replaces it.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use rustix::fs::{Access, AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::attributes::through_proc;
use crate::sys;

pub(super) use others::follows_links;
pub use others::{Linked, Placed, SpecialFile, place_link, place_other, place_proven_link};

pub(super) mod hidden;
mod others;

/// What becomes of whatever bears the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// It is replaced, unless it is a directory. Links are not followed.
    Yes,
    /// It stays, and the new one does not get the name.
    No,
}

impl Replace {
    /// What was found there is replaced; what was not is not, whoever has put it there meanwhile: it may be the copy of another name, which
    /// this file system does not tell from this one.
    pub(super) fn what_is_there(is_there: bool) -> Self {
        if is_there { Self::Yes } else { Self::No }
    }
}

/// How it is known that a name was free when it was given with [`Replace::No`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exclusivity {
    /// The kernel found the name free and gave it in one step.
    Atomic,
    /// The name was found free before it was given. A file that another process put there in between has been replaced.
    Checked,
}

/// Whether it outlives a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The system writes it some time.
    Cached,
    /// It is on the disk when the call returns, and its name as well.
    Synced,
}

/// A regular file under construction in a directory.
///
/// It has no name at all until it is [committed](Self::commit), where the file system can do that; otherwise a hidden one,
/// `.zc-dircopy-XXXXXXXX`, which goes when this is dropped. If the process is killed, the next run that comes by removes it.
///
/// # Examples
///
/// ```
/// use std::io::{Read as _, Write as _};
/// use zcopy_cli::dircopy::place::{Durability, Place, Replace};
///
/// let scratch = tempfile::tempdir()?;
/// let directory = std::fs::File::open(scratch.path())?;
/// let place = Place::new(&directory)?;
/// place.file().write_all(b"whole")?;
/// assert!(!scratch.path().join("name").exists());
/// place.commit(c"name", Replace::Yes, Durability::Cached)?;
/// assert_eq!(std::fs::read(scratch.path().join("name"))?, b"whole");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Place<D: AsFd> {
    /// Dropped first: libfuse may keep a hidden name for good if it is removed right after the last close.
    spot: Spot<D>,
    file: File,
}

impl<D: AsFd> Place<D> {
    /// Makes an empty file that its owner alone may use. It is open for reading too.
    ///
    /// # Errors
    ///
    /// What `open(2)` says.
    pub fn new(directory: D) -> io::Result<Self> {
        Self::with_mode(directory, PRIVATE)
    }

    /// Makes an empty file for whoever is going to have this mode, as far as the process's mask allows. As long as it has a hidden name,
    /// its owner alone may use it.
    ///
    /// # Errors
    ///
    /// What `open(2)` says.
    pub fn with_mode(directory: D, mode: Mode) -> io::Result<Self> {
        match nameless(directory.as_fd(), mode)? {
            Some(file) => Ok(Self {
                file,
                spot: Spot {
                    directory,
                    hidden: None,
                },
            }),
            None => Self::with_a_hidden_name(directory),
        }
    }

    /// As it is made where every file has a name.
    fn with_a_hidden_name(directory: D) -> io::Result<Self> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let make = |name: &CStr| rustix::fs::openat(&directory, name, flags, PRIVATE);
            let (file, name) = hidden::make(make)?;
            // Another run may have come by between the two calls, and taken it for a dead one's.
            if hold(&file) && rustix::fs::fstat(&file)?.st_nlink > 0 {
                let hidden = Some(name);
                return Ok(Self {
                    file: file.into(),
                    spot: Spot { directory, hidden },
                });
            }
            hidden::remove(directory.as_fd(), &name);
        }
    }

    /// The file, to be written to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether it has not even a hidden name.
    pub(super) fn is_nameless(&self) -> bool {
        self.spot.hidden.is_none()
    }

    /// Has the kernel say what went wrong with the writes so far, if it keeps that for `close(2)`, as over a network it does.
    ///
    /// # Errors
    ///
    /// What `close(2)` says of another descriptor of the file.
    pub fn settle(&self) -> io::Result<()> {
        sys::close_file(rustix::io::fcntl_dupfd_cloexec(&self.file, 3)?)
    }

    /// Gives the file its name, and gives it back.
    ///
    /// # Errors
    ///
    /// `EEXIST`, if it is not to replace what bears the name; `EISDIR`, if that is a directory; and what `fsync(2)`, `linkat(2)`
    /// and `renameat(2)` say. The name then stands for what it stood for, unless only the directory could not be synced.
    pub fn commit(
        mut self,
        name: &CStr,
        replace: Replace,
        durability: Durability,
    ) -> io::Result<File> {
        let _ = self.try_commit(name, replace, durability)?;
        Ok(self.into_file())
    }

    /// The file, for whoever has given it its name. One that has none is gone when it is closed.
    #[must_use]
    pub fn into_file(self) -> File {
        self.file
    }

    /// Gives the file its name, unless that fails: then another one can be tried. Tells how it is known that the name was free.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn try_commit(
        &mut self,
        name: &CStr,
        replace: Replace,
        durability: Durability,
    ) -> io::Result<Exclusivity> {
        if durability == Durability::Synced {
            rustix::fs::fsync(&self.file)?;
        }
        let directory = self.spot.directory.as_fd();
        let exclusivity = if let Some(hidden) = &self.spot.hidden {
            let exclusivity = hidden::rename(directory, hidden, name, replace)?;
            self.spot.hidden = None;
            exclusivity
        } else {
            self.link(name, replace)?;
            Exclusivity::Atomic
        };
        sync(self.spot.directory.as_fd(), durability)?;
        Ok(exclusivity)
    }

    /// Gives a name to a file that has none.
    fn link(&self, name: &CStr, replace: Replace) -> Result<(), Errno> {
        let directory = self.spot.directory.as_fd();
        let link = |name: &CStr| link_nameless(self.file.as_fd(), directory, name);
        match link(name) {
            Err(Errno::EXIST) if replace == Replace::Yes => {}
            result => return result,
        }
        // There is no call that links over a name. Nobody else has the file, so that it can be held.
        hold(&self.file);
        hidden::put(directory, name, replace, link).map(|_| ())
    }
}

impl<D: AsFd> AsFd for Place<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What its owner may do, and nobody else.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Where a file is under construction, and the hidden name that it has to have there, if it has.
#[derive(Debug)]
struct Spot<D: AsFd> {
    directory: D,
    hidden: Option<CString>,
}

impl<D: AsFd> Drop for Spot<D> {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            hidden::remove(self.directory.as_fd(), hidden);
        }
    }
}

/// Has the names of a directory outlive a loss of power, if that is asked for.
fn sync(directory: BorrowedFd<'_>, durability: Durability) -> Result<(), Errno> {
    match durability {
        Durability::Cached => Ok(()),
        Durability::Synced => rustix::fs::fsync(directory),
    }
}

/// Has other runs know that a file is not a dead one's. Not if one of them is about to remove it.
///
/// A file system without locks cannot tell them, and so they leave it alone.
fn hold(file: impl AsFd) -> bool {
    let held = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
    held != Err(Errno::WOULDBLOCK)
}

/// A file without a name, where there is such a thing, and it could be given one.
///
/// # Errors
///
/// What `open(2)` says, but for
/// - `EOPNOTSUPP`, `EINVAL`, `ENOSYS`: this file system does not know `O_TMPFILE`;
/// - `EISDIR`: neither does this kernel, or a layer below.
fn nameless(directory: BorrowedFd<'_>, mode: Mode) -> Result<Option<File>, Errno> {
    if !can_be_named() {
        return Ok(None);
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, c".", flags, mode) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::ISDIR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether a file without a name can be given one: without `/proc` that takes root's `CAP_DAC_READ_SEARCH`.
fn can_be_named() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let proc = rustix::fs::accessat(CWD, c"/proc/self/fd", Access::EXISTS, AtFlags::empty());
        proc.is_ok()
    })
}

/// Gives a name to a file that was opened without one.
///
/// # Kernel notes
///
/// The direct way takes root, or Linux 6.10; otherwise it ends with `ENOENT`, and the way through `/proc` is left.
fn link_nameless(
    file: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    name: &CStr,
) -> Result<(), Errno> {
    match rustix::fs::linkat(file, c"", directory, name, AtFlags::EMPTY_PATH) {
        Err(Errno::NOENT | Errno::INVAL) => {}
        linked => return linked,
    }
    let path = through_proc(file);
    rustix::fs::linkat(CWD, path, directory, name, AtFlags::SYMLINK_FOLLOW)
}

#[cfg(test)]
mod tests;
