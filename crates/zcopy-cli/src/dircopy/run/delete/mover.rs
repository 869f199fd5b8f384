//! Moves one entry.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::find::Gone;
use super::folder::take_attributes;
use crate::dircopy::copy::run_journal::RunJournal;
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::stat::permissions;
use crate::dircopy::walk::open_beneath;
use crate::dircopy::write::atomic_file::{Durability, Replace};

/// A recorded path and its digest.
pub(super) type FileRecord = (Vec<u8>, FileDigest);

/// The path that an entry gets in the folder.
pub(super) fn new_path(folder: &[u8], path: &[u8]) -> Vec<u8> {
    [folder, b"/", path].concat()
}

/// A directory that was opened up to its owner.
struct OpenedUp {
    directory: OwnedFd,
    mode: Mode,
}

impl OpenedUp {
    /// Opens up a directory that its owner may not write to. `None` if that changes nothing.
    fn open(directory: OwnedFd) -> Option<Self> {
        let mode = permissions(&rustix::fs::fstat(&directory).ok()?);
        let is_changed =
            !mode.contains(Mode::RWXU) && rustix::fs::fchmod(&directory, mode | Mode::RWXU).is_ok();
        is_changed.then_some(Self { directory, mode })
    }

    fn restore(self) -> Result<(), Errno> {
        rustix::fs::fchmod(self.directory, self.mode)
    }
}

/// Moves an entry to another directory. Directories that their owner may not write to are opened up
/// for that: the one that has the entry, and the entry, whose `..` changes. Returns whether they
/// have their modes again.
fn rename(
    from: &OwnedFd,
    name: &OsStr,
    kind: FileType,
    to: &OwnedFd,
) -> Result<Result<(), Errno>, Errno> {
    let rename = || rustix::fs::renameat(from, name, to, name);
    let mut moved = rename();
    let mut restored = Ok(());
    if moved == Err(Errno::ACCESS) {
        let parent = open_beneath(from.as_fd(), Path::new("")).ok();
        let parent = parent.and_then(OpenedUp::open);
        moved = rename();
        if moved == Err(Errno::ACCESS) && kind == FileType::Directory {
            let entry = open_beneath(from.as_fd(), Path::new(name)).ok();
            if let Some(entry) = entry.and_then(OpenedUp::open) {
                moved = rename();
                restored = entry.restore();
            }
        }
        if let Some(parent) = parent {
            restored = restored.and(parent.restore());
        }
    }
    moved.map(|()| restored)
}

/// An entry that was moved.
pub(super) struct Moved {
    from: OwnedFd,
    to: OwnedFd,
    /// Whether the directories that were opened up have their modes again.
    restored: Result<(), Errno>,
}

impl Moved {
    /// Brings the move to the disk. Returns the first error.
    pub(super) fn finish(self, durability: Durability) -> anyhow::Result<()> {
        let synced = match durability {
            Durability::Synced => {
                let synced = [self.to, self.from].map(rustix::fs::fsync);
                synced.into_iter().find(Result::is_err).unwrap_or(Ok(()))
            }
            Durability::Cached => Ok(()),
        };
        self.restored
            .map_err(io::Error::from)
            .context("it is moved, but a directory could not get its mode back")?;
        synced
            .map_err(io::Error::from)
            .context("it is moved, but a loss of power may undo that")
    }
}

/// Moves entries of the destination into a folder.
pub(super) struct Mover<'a> {
    pub(super) destination: BorrowedFd<'a>,
    pub(super) folder: BorrowedFd<'a>,
    pub(super) folder_name: &'a [u8],
    pub(super) journal: &'a RunJournal<'a>,
}

impl Mover<'_> {
    /// Moves an entry, or leaves nothing in the folder for it.
    pub(super) fn move_entry(&self, entry: &Gone, records: &[FileRecord]) -> anyhow::Result<Moved> {
        let path = Path::new(OsStr::from_bytes(&entry.path));
        let parent = path.parent().unwrap_or(Path::new(""));
        let moved = self.try_to_move(entry, path, parent, records);
        if moved.is_err() {
            self.remove_empty(parent);
        }
        moved
    }

    fn try_to_move(
        &self,
        entry: &Gone,
        path: &Path,
        parent: &Path,
        records: &[FileRecord],
    ) -> anyhow::Result<Moved> {
        let name = path.file_name().unwrap_or_default();
        let from = open_beneath(self.destination, parent).context("cannot open its directory")?;
        let to = self
            .make_parents(parent)
            .context("cannot make its directory")?;
        let new_paths = records
            .iter()
            .map(|(path, _)| new_path(self.folder_name, path));
        let new_paths: Vec<_> = new_paths.collect();
        let mut announced = Ok(());
        if !records.is_empty() {
            let moves = records.iter().zip(&new_paths);
            self.journal
                .announce_moves(moves.map(|((path, file), new)| (&**path, &**new, *file)));
            announced = self.journal.allow_name(Replace::Yes, Durability::Synced);
        }
        let restored = announced.and_then(|()| {
            rename(&from, name, entry.kind, &to).map_err(|errno| anyhow!(io::Error::from(errno)))
        });
        let restored = restored.map_err(|error| {
            let stays = records
                .iter()
                .map(|(path, file)| (&**path, JournalEntry::Has(*file)));
            let cancelled = new_paths
                .iter()
                .map(|path| (&**path, JournalEntry::Cancelled));
            self.journal.add(stays.chain(cancelled));
            error.context("cannot move it")
        })?;
        Ok(Moved { from, to, restored })
    }

    /// Removes the directories of a path in the folder that are empty.
    fn remove_empty(&self, path: &Path) {
        for path in path.ancestors() {
            let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
                break;
            };
            // Several of them may not exist.
            if let Ok(parent) = open_beneath(self.folder, parent) {
                let _ = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
            }
        }
    }

    /// Makes the directories of a path in the folder. Returns the last one.
    fn make_parents(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut original = open_beneath(self.destination, Path::new(""))?;
        let mut made = open_beneath(self.folder, Path::new(""))?;
        for name in path {
            let name = Path::new(name);
            original = open_beneath(original.as_fd(), name)?;
            let is_new = match rustix::fs::mkdirat(&made, name, Mode::RWXU) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(errno.into()),
            };
            made = open_beneath(made.as_fd(), name)?;
            if is_new {
                take_attributes(original.as_fd(), &made);
            }
        }
        Ok(made)
    }
}
