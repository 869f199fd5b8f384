//! Directory entries other than directories.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::directory::{Directory, OpenDirs};
use super::follow_link::FollowLink;
use super::walk_error::WalkError;
use crate::dircopy::damage_map::map_name;
use crate::dircopy::stat::{file_type, is_regular};
use crate::dircopy::write::metadata::Named;

/// A file to be copied.
#[derive(Debug)]
#[must_use = "its directory waits until it is done"]
pub(crate) struct Entry {
    dirent: Dirent,
    opened: Arc<OpenDirs>,
}

/// A name in a directory of the source, and the file that it stood for when the walk came by.
#[derive(Debug)]
struct Dirent {
    directory: Arc<Directory>,
    name: CString,
    stat: Stat,
    follow: FollowLink,
}

impl Entry {
    /// Counts as a [user](Directory::retain) of the directory until it is done.
    pub(super) fn new(
        directory: Arc<Directory>,
        opened: Arc<OpenDirs>,
        name: CString,
        stat: Stat,
        follow: FollowLink,
    ) -> Self {
        directory.retain();
        let dirent = Dirent {
            directory,
            name,
            stat,
            follow,
        };
        Self { dirent, opened }
    }

    /// Its directory.
    #[must_use]
    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.dirent.directory
    }

    /// The descriptors of its directory.
    #[must_use]
    pub(crate) fn opened(&self) -> &Arc<OpenDirs> {
        &self.opened
    }

    /// The directory of its copy, for a
    /// [`AtomicFile`](crate::dircopy::write::atomic_file::AtomicFile) to own.
    #[must_use]
    pub(crate) fn destination_directory(&self) -> &Arc<OwnedFd> {
        self.opened.destination()
    }

    /// The name in its directory.
    #[must_use]
    pub(crate) fn name(&self) -> &CStr {
        &self.dirent.name
    }

    /// The path from the root.
    #[must_use]
    pub(crate) fn path(&self) -> PathBuf {
        self.dirent.path()
    }

    /// The status that the walk found.
    #[must_use]
    pub(crate) fn stat(&self) -> &Stat {
        &self.dirent.stat
    }

    /// The file type, which is not a directory.
    #[must_use]
    pub(crate) fn kind(&self) -> FileType {
        file_type(&self.dirent.stat)
    }

    /// The original, by its name in the source.
    #[must_use]
    pub(crate) fn source(&self) -> Named<'_> {
        Named {
            directory: self.opened.source(),
            name: &self.dirent.name,
        }
    }

    /// The copy, by its name in the destination. It need not exist.
    #[must_use]
    pub(crate) fn destination(&self) -> Named<'_> {
        Named {
            directory: self.opened.destination().as_fd(),
            name: &self.dirent.name,
        }
    }

    /// The file of this name in the destination, if there is one. A symbolic link is not followed.
    /// A directory that the walk has made is taken to be empty.
    ///
    /// # Errors
    ///
    /// Those of `fstatat(2)`.
    pub(crate) fn existing(&self) -> io::Result<Option<Stat>> {
        if self.dirent.directory.is_new() {
            return Ok(None);
        }
        let Named { directory, name } = self.destination();
        match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether the destination may have had a damage map for this file when the walk came by.
    #[must_use]
    pub(crate) fn may_have_map(&self) -> bool {
        !self.dirent.directory.has_no_maps()
            && self
                .dirent
                .directory
                .may_have_map(&map_name(&self.dirent.name))
    }

    /// Whether the source may have a damage map for this file.
    #[must_use]
    pub(crate) fn may_have_source_map(&self) -> bool {
        !self.dirent.directory.has_no_maps()
            && self
                .dirent
                .directory
                .may_have_source_map(&map_name(&self.dirent.name))
    }

    /// Opens a regular file for reading, and returns its status at that time: it may have grown.
    ///
    /// # Errors
    ///
    /// Those of `open(2)`: `ELOOP`, if a symbolic link has replaced the file; `EINVAL`, if the file
    /// is not regular any more.
    pub(crate) fn open(&self) -> io::Result<(File, Stat)> {
        // Without O_NONBLOCK, opening a FIFO that has replaced the file would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let flags = match self.dirent.follow {
            FollowLink::No => flags | OFlags::NOFOLLOW,
            FollowLink::Yes => flags,
        };
        let file = rustix::fs::openat(
            self.opened.source(),
            &*self.dirent.name,
            flags,
            Mode::empty(),
        )?;
        let stat = rustix::fs::fstat(&file)?;
        if !is_regular(&stat) {
            return Err(Errno::INVAL.into());
        }
        Ok((file.into(), stat))
    }

    /// Ends the work on this entry, whether it succeeded or failed. After the last entry the
    /// directory gets its attributes.
    ///
    /// If an entry is dropped instead, its directory keeps the mode that it was made with, 0700.
    ///
    /// # Errors
    ///
    /// The attribute that the directory could not keep.
    pub(crate) fn done(self) -> Result<(), WalkError> {
        self.dirent.directory.release(&self.opened)
    }

    /// Sets the entry aside until its turn comes.
    pub(crate) fn wait(self, deferred_dirs: DeferredDirs) -> DeferredEntry {
        let Self { dirent, opened } = self;
        let mut opened = Some(opened);
        if deferred_dirs == DeferredDirs::Closed {
            dirent.directory.close(&mut opened);
        }
        DeferredEntry { dirent, opened }
    }
}

/// Whether the directory of an entry stays open while the entry waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeferredDirs {
    /// Its descriptors stay open.
    Open,
    /// Its descriptors are closed, to spare them.
    Closed,
}

/// An entry whose turn comes later.
#[derive(Debug)]
#[must_use = "its directory waits until it is done"]
pub(crate) struct DeferredEntry {
    dirent: Dirent,
    opened: Option<Arc<OpenDirs>>,
}

impl DeferredEntry {
    /// The name in its directory.
    #[must_use]
    pub(crate) fn name(&self) -> &CStr {
        &self.dirent.name
    }

    /// The path from the root.
    #[must_use]
    pub(crate) fn path(&self) -> PathBuf {
        self.dirent.path()
    }

    /// Whether its directory is open, for this entry or another user.
    #[must_use]
    pub(crate) fn is_open(&self) -> bool {
        self.opened.is_some() || self.dirent.directory.is_open()
    }

    /// Opens the directory again, if it was closed.
    ///
    /// # Errors
    ///
    /// The directory or its copy was moved or replaced, or cannot be opened. The entry cannot be
    /// copied then.
    pub(crate) fn resume(self) -> Result<Entry, WalkError> {
        let Self { dirent, opened } = self;
        let opened = match opened {
            Some(opened) => opened,
            None => match dirent.directory.open(None) {
                Ok(opened) => opened,
                Err(cause) => {
                    dirent.directory.keep_partial(&dirent.name);
                    dirent.directory.abandon();
                    return Err(WalkError::new(dirent.path(), cause));
                }
            },
        };
        Ok(Entry { dirent, opened })
    }
}

impl Dirent {
    fn path(&self) -> PathBuf {
        self.directory.path_of(&self.name)
    }
}
