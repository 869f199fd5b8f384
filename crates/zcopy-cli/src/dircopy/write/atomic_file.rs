//! Gives files their names in the destination when they are complete, and not before.
//!
//! However the process ends, a name stands for the complete old file or the complete new one.
//!
//! - `temp_name`: names of files under construction.
//! - `special`: symbolic links, special files and hard links.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::{Access, AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::metadata::through_proc;
use crate::common::sys;
use crate::dircopy::stat::identity;

pub(crate) use special::follows_links;
pub(crate) use special::{
    LinkSource, Linked, SpecialFile, place_link, place_other, place_proven_link,
};

pub(crate) mod temp_name;

mod special;

/// Whether a file that has the name already is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// The file is replaced, unless it is a directory. A symbolic link is replaced itself.
    Yes,
    /// The file stays, and the new one does not get the name.
    No,
}

impl Replace {
    /// Replaces a file that was found, and no file that was created since. That may be the copy of
    /// another name, which this file system does not tell from this one.
    pub(crate) fn what_is_there(is_there: bool) -> Self {
        if is_there { Self::Yes } else { Self::No }
    }
}

/// The guarantee that a name was free when it was given with [`Replace::No`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exclusivity {
    /// The kernel found the name free and gave it in one step.
    Atomic,
    /// The name was found free before it was given. A file that another process put there in
    /// between has been replaced.
    Checked,
}

/// Whether a file survives a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The kernel writes it back later.
    Cached,
    /// The file and its name are on the disk when the call returns.
    Synced,
}

/// A regular file under construction in a directory.
///
/// It has no name until it is [committed](Self::commit), if the file system supports that.
/// Otherwise it has a temporary name, `.zc-dircopy-XXXXXXXX`, which is removed on drop. If the
/// process is killed, the next run that lists the directory removes it.
#[derive(Debug)]
pub struct AtomicFile<D: AsFd> {
    /// Dropped first: libfuse may keep a temporary name for good if it is removed right after the
    /// last close.
    temp_name: TempName<D>,
    file: File,
}

impl<D: AsFd> AtomicFile<D> {
    /// Creates an empty file with mode 0600, which is open for reading too.
    ///
    /// # Errors
    ///
    /// Those of `open(2)`.
    pub fn new(directory: D) -> io::Result<Self> {
        Self::with_mode(directory, PRIVATE)
    }

    /// Creates an empty file with this mode, less the umask. If it has a temporary name, its mode
    /// is
    /// 0600.
    ///
    /// # Errors
    ///
    /// Those of `open(2)`.
    pub fn with_mode(directory: D, mode: Mode) -> io::Result<Self> {
        match nameless(directory.as_fd(), mode)? {
            Some(file) => Ok(Self {
                file,
                temp_name: TempName {
                    directory,
                    name: None,
                    kept: None,
                },
            }),
            None => Self::with_temp_name(directory),
        }
    }

    /// Creates the file on a file system without nameless files.
    pub(super) fn with_temp_name(directory: D) -> io::Result<Self> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let make = |name: &CStr| rustix::fs::openat(&directory, name, flags, PRIVATE);
            let (file, name) = temp_name::make(make)?;
            // Between the two calls another run may have taken it for the file of a killed run, and
            // removed it.
            if lock(&file) && rustix::fs::fstat(&file)?.st_nlink > 0 {
                return Ok(Self::from_left(directory, name, file.into()));
            }
            temp_name::remove(directory.as_fd(), &name);
        }
    }

    /// A file under construction that has this temporary name already.
    pub(super) fn from_left(directory: D, temp_name: CString, file: File) -> Self {
        let temp_name = TempName {
            directory,
            name: Some(temp_name),
            kept: None,
        };
        Self { temp_name, file }
    }

    /// Leaves the temporary name on drop, if `keep` says so then.
    pub(super) fn keep_if(&mut self, keep: Arc<Keep>) {
        self.temp_name.kept = Some(keep);
    }

    /// The temporary name, if there is one.
    pub(super) fn temp_name(&self) -> Option<&CStr> {
        self.temp_name.name.as_deref()
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether the file has no temporary name either.
    pub(crate) fn is_nameless(&self) -> bool {
        self.temp_name.name.is_none()
    }

    /// Reports errors of earlier writes that the kernel returns only from `close(2)`, as network
    /// file systems do.
    ///
    /// # Errors
    ///
    /// Those of `close(2)` of a second descriptor of the file.
    pub fn settle(&self) -> io::Result<()> {
        sys::close_file(rustix::io::fcntl_dupfd_cloexec(&self.file, 3)?)
    }

    /// Gives the file its name, and returns it.
    ///
    /// # Errors
    ///
    /// `EEXIST`, if another file has the name and must not be replaced; `EISDIR`, if that is a
    /// directory; those of `fsync(2)`, `linkat(2)` and `renameat(2)`. After an error the name is
    /// unchanged, unless only the directory could not be synced.
    pub fn commit(
        mut self,
        name: &CStr,
        replace: Replace,
        durability: Durability,
    ) -> io::Result<File> {
        let _ = self.try_commit(name, replace, durability)?;
        Ok(self.into_file())
    }

    /// The file. If it has no name, closing it removes it.
    #[must_use]
    pub fn into_file(self) -> File {
        self.file
    }

    /// Gives the file its name. After an error another name can be tried.
    ///
    /// # Errors
    ///
    /// Those of [`commit`](Self::commit).
    pub fn try_commit(
        &mut self,
        name: &CStr,
        replace: Replace,
        durability: Durability,
    ) -> io::Result<Exclusivity> {
        if durability == Durability::Synced {
            rustix::fs::fsync(&self.file)?;
        }
        let directory = self.temp_name.directory.as_fd();
        let exclusivity = if let Some(temp_name) = &self.temp_name.name {
            if self.temp_name.kept.is_some() {
                self.check_temp_name(temp_name)?;
            }
            let exclusivity = temp_name::rename(directory, temp_name, name, replace)?;
            self.temp_name.name = None;
            exclusivity
        } else {
            self.link(name, replace)?;
            Exclusivity::Atomic
        };
        if let Some(keep) = &self.temp_name.kept {
            keep.end();
        }
        sync(self.temp_name.directory.as_fd(), durability)?;
        Ok(exclusivity)
    }

    /// Makes sure that the temporary name is that of this file: it may have had it for hours.
    fn check_temp_name(&self, temp_name: &CStr) -> io::Result<()> {
        let directory = self.temp_name.directory.as_fd();
        let named = rustix::fs::statat(directory, temp_name, AtFlags::SYMLINK_NOFOLLOW)?;
        let open = rustix::fs::fstat(&self.file)?;
        if identity(&named) != identity(&open) {
            let text = "another file has got its temporary name";
            return Err(io::Error::other(text));
        }
        Ok(())
    }

    /// Gives a name to a nameless file.
    fn link(&self, name: &CStr, replace: Replace) -> Result<(), Errno> {
        let directory = self.temp_name.directory.as_fd();
        let link = |name: &CStr| link_nameless(self.file.as_fd(), directory, name);
        match link(name) {
            Err(Errno::EXIST) if replace == Replace::Yes => {}
            result => return result,
        }
        // No call links over an existing name. No other run can have locked the nameless file.
        lock(&self.file);
        temp_name::put(directory, name, replace, link).map(|_| ())
    }
}

impl<D: AsFd> AsFd for AtomicFile<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The mode of a file under construction.
pub(super) const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The directory of a file under construction, and the file's temporary name, if it needs one.
#[derive(Debug)]
struct TempName<D: AsFd> {
    directory: D,
    name: Option<CString>,
    kept: Option<Arc<Keep>>,
}

/// Whether a file under construction stays when it is dropped before it has its name, for a later
/// run to go on with.
#[derive(Debug)]
pub(crate) struct Keep {
    is_wanted: AtomicBool,
    /// A signal asks the run to end.
    is_interrupted: Arc<AtomicBool>,
    /// The file has its name.
    has_ended: AtomicBool,
}

impl Keep {
    /// Keeps a file if the flag is set.
    pub(crate) fn if_set(is_interrupted: &Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Self {
            is_wanted: AtomicBool::new(false),
            is_interrupted: Arc::clone(is_interrupted),
            has_ended: AtomicBool::new(false),
        })
    }

    /// Keeps the file in any case.
    pub(crate) fn set(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// Keeps nothing any more: the file has its name.
    fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Whether the file stays.
    pub(super) fn is_set(&self) -> bool {
        let is_wanted = [&self.is_wanted, &*self.is_interrupted];
        let is_wanted = is_wanted.iter().any(|flag| flag.load(Ordering::Relaxed));
        is_wanted && !self.has_ended.load(Ordering::Relaxed)
    }
}

impl<D: AsFd> Drop for TempName<D> {
    fn drop(&mut self) {
        if self.kept.as_ref().is_some_and(|keep| keep.is_set()) {
            return;
        }
        if let Some(temp_name) = &self.name {
            temp_name::remove(self.directory.as_fd(), temp_name);
        }
    }
}

/// Syncs the names in a directory if they must survive a loss of power.
fn sync(directory: BorrowedFd<'_>, durability: Durability) -> Result<(), Errno> {
    match durability {
        Durability::Cached => Ok(()),
        Durability::Synced => rustix::fs::fsync(directory),
    }
}

/// Locks a file, so that no other run takes it for the file of a killed run. False if another run
/// has locked it to remove it.
///
/// Without locks the result is true: other runs cannot lock the file either, and do not remove it.
pub(super) fn lock(file: impl AsFd) -> bool {
    let locked = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
    locked != Err(Errno::WOULDBLOCK)
}

/// Creates a nameless file. `None` if the file system has none, or if it could not be named later.
///
/// # Errors
///
/// Those of `open(2)`, except
/// - `EOPNOTSUPP`, `EINVAL`, `ENOSYS`: the file system does not know `O_TMPFILE`;
/// - `EISDIR`: the kernel, or a lower layer of the file system, does not know it.
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

/// Whether a nameless file can be named. Without `/proc` only `CAP_DAC_READ_SEARCH` allows that.
fn can_be_named() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let proc = rustix::fs::accessat(CWD, c"/proc/self/fd", Access::EXISTS, AtFlags::empty());
        proc.is_ok()
    })
}

/// Gives a name to a nameless file.
///
/// # Kernel notes
///
/// `AT_EMPTY_PATH` needs `CAP_DAC_READ_SEARCH` or Linux 6.10, and fails with `ENOENT` otherwise.
/// Then the path through `/proc` works.
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
