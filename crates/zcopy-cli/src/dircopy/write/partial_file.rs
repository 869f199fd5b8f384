//! Files under construction that outlive their run, so that a later run goes on inside them.
//!
//! A partial file has a temporary name, and so has the log beside it. Both look like any other file
//! under construction: nothing lists, copies or records them, and a run that does not look for them
//! removes them. The log names the partial file, the original, and the digests of what was written:
//!
//! ```text
//! # zc-dircopy partial, version 1
//! 5f1c…  f .zc-dircopy-k3Jx81Qa 214748364800 1312 1795763478.123456789 1795763478.123456789 622e6d6f76
//! 9a07…  c 67108864 sha256 e3b0…
//! ```
//!
//! Each line has a check, a digest of this line and all earlier ones. Reading stops at the first
//! line whose check is wrong. A digest of the log says nothing about the partial file before that
//! file has been read: a log may have reached the disk before the bytes, and either file may have
//! been changed.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;

use super::atomic_file::{AtomicFile, Durability, Keep, PRIVATE, lock, temp_name};
use crate::dircopy::stat::{is_regular, open_regular, permissions, size};
use log::{Head, SourceVersion, parse, read_log};

pub(crate) use log::{Checkpoint, PartialLog};

mod log;

/// A shorter file has no partial file, and is copied from its start again: 64 MiB, which take less
/// than a second on most disks.
pub(crate) const MIN_SIZE: u64 = 64 << 20;

/// The errors of `open(2)` of a file that is gone, is no regular one, or belongs to another user.
const UNUSABLE: [Errno; 5] = [
    Errno::NOENT,
    Errno::LOOP,
    Errno::ISDIR,
    Errno::NXIO,
    Errno::ACCESS,
];

/// A file in a directory of the destination, as a partial file is.
type PartialCopy = AtomicFile<Arc<OwnedFd>>;

/// A partial file that an earlier run has left.
#[derive(Debug)]
pub(crate) struct LeftPartial {
    log: CString,
    partial: CString,
    /// The name of the original, and of the copy to be.
    name: Vec<u8>,
    version: SourceVersion,
}

impl LeftPartial {
    /// The partial files among these temporary names. Both files of each exist.
    ///
    /// # Errors
    ///
    /// Those of `open(2)` and `read(2)` that a log can have. Each of the names may belong to a
    /// partial file then.
    pub(crate) fn find(directory: BorrowedFd<'_>, temp_names: &[CString]) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for name in temp_names {
            let file = match open_regular(directory, name) {
                Ok((file, _)) => file,
                Err(error) if is_no_log(&error) => continue,
                Err(error) => return Err(error),
            };
            let mut begin = Vec::new();
            // No name is longer than 255 bytes, and so no first entry than 1 KiB.
            file.take(1 << 10).read_to_end(&mut begin)?;
            let Some((head, _)) = parse(&begin) else {
                continue;
            };
            let Head {
                partial,
                name: original,
                version,
            } = head;
            if temp_names.contains(&partial) && partial != *name {
                found.push(Self {
                    log: name.clone(),
                    partial,
                    name: original,
                    version,
                });
            }
        }
        // A file belongs to one log.
        found.sort_by(|a, b| a.partial.cmp(&b.partial));
        found.dedup_by(|a, b| a.partial == b.partial);
        Ok(found)
    }

    /// Whether it is a part of a copy of this name.
    pub(crate) fn is_of(&self, name: &CStr) -> bool {
        self.name == name.to_bytes()
    }

    /// The name of the original.
    pub(crate) fn name(&self) -> Option<CString> {
        CString::new(self.name.clone()).ok()
    }

    /// Whether the original had this version.
    pub(crate) fn has_version(&self, stat: &Stat) -> bool {
        self.version == SourceVersion::of(stat)
    }

    /// Whether one of its two files has this name.
    pub(crate) fn has_name(&self, temp_name: &CStr) -> bool {
        [&self.log, &self.partial]
            .iter()
            .any(|name| ***name == *temp_name)
    }

    /// How many bytes a run may take over, and how many the file holds on the disk.
    pub(crate) fn forecast(&self, directory: BorrowedFd<'_>) -> Option<(u64, Stat)> {
        let (log, _) = open_regular(directory, &self.log).ok()?;
        let (_, partial) = open_regular(directory, &self.partial).ok()?;
        let (_, checkpoints, _) = read_log(&log).ok()??;
        let offsets = checkpoints.iter().map(|checkpoint| checkpoint.offset);
        let last = offsets.filter(|offset| *offset <= size(&partial)).max();
        Some((last.unwrap_or(0), partial))
    }

    /// Opens both files, to go on with them. `None` if another run has them open, or if they are
    /// not as a run leaves them: `new` is a new file of this run in the same directory, whose owner
    /// they must have, and no one may do more with them than with it.
    ///
    /// # Errors
    ///
    /// Those of `open(2)` and `read(2)` that a file of a run can have.
    pub(crate) fn open(
        &self,
        directory: &Arc<OwnedFd>,
        new: &Stat,
        keep: &Arc<Keep>,
        durability: Durability,
    ) -> io::Result<Option<OpenPartial>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = |name: &CStr, flags| -> io::Result<Option<File>> {
            let file: File = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
                Ok(file) => file.into(),
                Err(errno) if UNUSABLE.contains(&errno) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            };
            let stat = rustix::fs::fstat(&file)?;
            let is_own = is_regular(&stat)
                && stat.st_nlink == 1
                && stat.st_uid == new.st_uid
                && (permissions(new) | PRIVATE).contains(permissions(&stat));
            Ok((is_own && lock(&file)).then_some(file))
        };
        let Some(log) = open(&self.log, flags | OFlags::APPEND)? else {
            return Ok(None);
        };
        let Some(partial) = open(&self.partial, flags)? else {
            return Ok(None);
        };
        let Some((_, checkpoints, read)) = read_log(&log)? else {
            return Ok(None);
        };
        let name = self.log.clone();
        let log = PartialLog::from_left(directory, name, log, read, keep, durability)?;
        let mut file = AtomicFile::from_left(Arc::clone(directory), self.partial.clone(), partial);
        file.keep_if(Arc::clone(keep));
        Ok(Some(OpenPartial {
            file,
            log,
            checkpoints,
        }))
    }

    /// Removes both files, unless another run has them open.
    pub(crate) fn remove(&self, directory: BorrowedFd<'_>) {
        // The partial file comes first: it takes the space, and a log alone is of no use.
        for name in [&self.partial, &self.log] {
            temp_name::sweep_name(directory, name);
        }
    }
}

/// Whether a name that cannot be opened is no log of this user.
fn is_no_log(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    // EINVAL has no number: the file is no regular one.
    error.kind() == io::ErrorKind::InvalidInput
        || errno.is_some_and(|errno| UNUSABLE.contains(&errno))
}

/// A partial file that is open.
#[derive(Debug)]
pub(crate) struct OpenPartial {
    pub(crate) file: PartialCopy,
    pub(crate) log: PartialLog,
    /// The parts of copies that earlier runs have written.
    pub(crate) checkpoints: Vec<Checkpoint>,
}

impl OpenPartial {
    /// Creates an empty partial file for the copy of `name`, and its log.
    ///
    /// # Errors
    ///
    /// Those of `open(2)`, `write(2)` and, with [`Durability::Synced`], `fsync(2)`.
    pub(crate) fn create(
        directory: &Arc<OwnedFd>,
        name: &CStr,
        original: &Stat,
        keep: &Arc<Keep>,
        durability: Durability,
    ) -> io::Result<Self> {
        let mut file = AtomicFile::with_temp_name(Arc::clone(directory))?;
        file.keep_if(Arc::clone(keep));
        let head = Head {
            partial: file.temp_name().unwrap_or_default().to_owned(),
            name: name.to_bytes().to_vec(),
            version: SourceVersion::of(original),
        };
        let log = PartialLog::create(directory, &head, keep, durability)?;
        Ok(Self {
            file,
            log,
            checkpoints: Vec::new(),
        })
    }

    /// Cuts both files behind the last of the checkpoints that the partial file agrees with, which
    /// are in the order of their offsets. A later run does not meet the others again.
    ///
    /// # Errors
    ///
    /// Those of `ftruncate(2)`, of `read(2)` of the log and of [`PartialLog::add`].
    pub(crate) fn cut(&mut self, proven: &[Checkpoint]) -> io::Result<()> {
        let Some(last) = proven.last() else {
            return Ok(());
        };
        rustix::fs::ftruncate(self.file.file(), last.offset)?;
        if self.log.cut(proven)? != Some(*last) {
            self.log.add(self.file.as_fd(), *last)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
