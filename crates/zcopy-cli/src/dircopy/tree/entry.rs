//! What is in a directory and is no directory.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::directory::{Directory, Opened};
use super::trouble::Trouble;
use crate::dircopy::attributes::Named;
use crate::dircopy::damage_map::map_name;
use crate::dircopy::st_mode::{file_type, is_regular};

/// Something to be copied.
#[derive(Debug)]
#[must_use = "its directory waits until it is done"]
pub struct Entry {
    directory: Arc<Directory>,
    opened: Arc<Opened>,
    name: CString,
    stat: Stat,
    way: Way,
}

/// How an entry is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By its own name.
    Direct,
    /// By a symbolic link, which is to be followed.
    Link,
}

impl Entry {
    pub(super) fn new(
        (directory, opened): (&Arc<Directory>, Arc<Opened>),
        name: CString,
        stat: Stat,
        way: Way,
    ) -> Self {
        directory.retain();
        Self {
            directory: Arc::clone(directory),
            opened,
            name,
            stat,
            way,
        }
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// The descriptors of its directory.
    #[must_use]
    pub fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }

    /// The directory of its copy, for a [`Place`](crate::dircopy::place::Place) to own.
    #[must_use]
    pub fn destination_directory(&self) -> &Arc<OwnedFd> {
        self.opened.destination()
    }

    /// Its name there.
    #[must_use]
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// Its path from the root.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.path_of(&self.name)
    }

    /// What it was like when the walk came by.
    #[must_use]
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// What it is; no directory.
    #[must_use]
    pub fn kind(&self) -> FileType {
        file_type(&self.stat)
    }

    /// The original.
    #[must_use]
    pub fn source(&self) -> Named<'_> {
        Named {
            directory: self.opened.source(),
            name: &self.name,
        }
    }

    /// The copy, whether it exists or not.
    #[must_use]
    pub fn destination(&self) -> Named<'_> {
        Named {
            directory: self.opened.destination().as_fd(),
            name: &self.name,
        }
    }

    /// What bears its name in the destination, if anything does. No link is followed. Nothing does in a directory that the walk has
    /// made.
    ///
    /// # Errors
    ///
    /// What `fstatat(2)` says.
    pub fn existing(&self) -> io::Result<Option<Stat>> {
        if self.directory.is_new() {
            return Ok(None);
        }
        let Named { directory, name } = self.destination();
        match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether the copy had a name, when its directory was opened, that the map of this file's
    /// damage would have.
    #[must_use]
    pub fn may_have_map(&self) -> bool {
        !self.directory.has_no_maps() && self.directory.may_have_map(&map_name(&self.name))
    }

    /// Whether the source has such a name.
    #[must_use]
    pub fn may_have_source_map(&self) -> bool {
        !self.directory.has_no_maps() && self.directory.may_have_source_map(&map_name(&self.name))
    }

    /// Opens a regular file, for reading, and tells what it is like now: it may have grown.
    ///
    /// # Errors
    ///
    /// What `open(2)` says: `ELOOP`, if a symbolic link has come to stand there; `EINVAL`, if it is no
    /// regular file any more.
    pub fn open(&self) -> io::Result<(File, Stat)> {
        // A FIFO that has come to stand there would wait for its writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let flags = match self.way {
            Way::Direct => flags | OFlags::NOFOLLOW,
            Way::Link => flags,
        };
        let file = rustix::fs::openat(self.opened.source(), &*self.name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        if !is_regular(&stat) {
            return Err(Errno::INVAL.into());
        }
        Ok((file.into(), stat))
    }

    /// Says that the entry has been dealt with, well or not. The last of a directory gives that its attributes.
    ///
    /// Of an entry that is dropped instead this is not known: its directory keeps the mode that it was made with, 0700.
    ///
    /// # Errors
    ///
    /// The attribute that the directory could not keep.
    pub fn done(self) -> Result<(), Trouble> {
        self.directory.release(&self.opened)
    }

    /// Sets it aside until its turn comes.
    pub fn wait(self, while_waiting: WhileWaiting) -> Waiting {
        let Self {
            directory,
            opened,
            name,
            stat,
            way,
        } = self;
        let mut opened = Some(opened);
        if while_waiting == WhileWaiting::Closed {
            directory.close(&mut opened);
        }
        Waiting {
            directory,
            opened,
            name,
            stat,
            way,
        }
    }
}

/// What becomes of the descriptors of a directory while its entries wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhileWaiting {
    /// They stay open.
    Open,
    /// They are closed, where descriptors are few.
    Closed,
}

/// An entry whose turn comes later.
#[derive(Debug)]
#[must_use = "its directory waits until it is done"]
pub struct Waiting {
    directory: Arc<Directory>,
    opened: Option<Arc<Opened>>,
    name: CString,
    stat: Stat,
    way: Way,
}

impl Waiting {
    /// Its name in its directory.
    #[must_use]
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// Its path from the root.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.path_of(&self.name)
    }

    /// Whether its directory is open, for whomever.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.opened.is_some() || self.directory.is_open()
    }

    /// Opens its directory again, if that was closed.
    ///
    /// # Errors
    ///
    /// The directory, or its copy, is no longer where it was, or cannot be opened. Nothing can be done about the entry.
    pub fn resume(self) -> Result<Entry, Trouble> {
        let opened = match self.opened {
            Some(opened) => opened,
            None => match self.directory.open(None) {
                Ok(opened) => opened,
                Err(cause) => {
                    self.directory.abandon();
                    return Err(Trouble::new(self.directory.path_of(&self.name), cause));
                }
            },
        };
        Ok(Entry {
            directory: self.directory,
            opened,
            name: self.name,
            stat: self.stat,
            way: self.way,
        })
    }
}
