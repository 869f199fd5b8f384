//! The way through the tree.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::directory::{Directory, Opened};
use super::entry::{Entry, Way};
use super::map_names::MapNames;
use super::names::Names;
use super::options::Options;
use super::trouble::{Cause, Trouble};
use super::{DIRECTORY, destination};
use crate::dircopy::containment::identity;
use crate::dircopy::folded_names::FoldedNames;
use crate::dircopy::st_mode::{file_type, is_directory};

/// The entries of a tree in the bytewise order of their paths, and its directories made in the destination.
///
/// A directory is made before its first entry is given. Nothing is remembered but the names in the directories above.
#[derive(Debug)]
pub struct Walk<'a, R> {
    options: Options,
    report: R,
    /// What finds directories that another name has in the destination.
    names: Option<&'a FoldedNames<'a>>,
    /// The directory at hand, and those above it.
    levels: Vec<Level>,
    /// The first of them that is open; all behind it are.
    first_open: usize,
    device: u64,
}

/// A directory of which some entries have not had their turn.
#[derive(Debug)]
struct Level {
    directory: Arc<Directory>,
    /// `None` if it is closed, or could not be opened again. Then it has no names either.
    opened: Option<Arc<Opened>>,
    names: Names,
}

impl<'a, R: FnMut(Trouble)> Walk<'a, R> {
    pub(super) fn new(
        (root, opened): (&Arc<Directory>, &Arc<Opened>),
        options: Options,
        report: R,
        names: Option<&'a FoldedNames<'a>>,
    ) -> Self {
        let mut walk = Self {
            options,
            report,
            names,
            levels: Vec::new(),
            first_open: 0,
            device: identity(root.stat()).0,
        };
        root.retain();
        // Another walk may have been here. If it cannot be read, that is said next.
        let _ = rustix::fs::seek(opened.source(), SeekFrom::Start(0));
        walk.enter(Arc::clone(root), Arc::clone(opened));
        walk
    }

    /// Reads the names in a directory, which come next.
    fn enter(&mut self, directory: Arc<Directory>, opened: Arc<Opened>) {
        let is_foreign = identity(directory.stat()).0 != self.device;
        let names = if self.options.one_file_system && is_foreign {
            Names::default()
        } else {
            let source = opened.source();
            let mut maps = MapNames::default();
            let (names, read) = Names::read(source, |name, kind| {
                maps.add(name);
                match kind {
                    FileType::Unknown => self.is_directory(source, name),
                    FileType::Symlink if self.options.follows_symlinks => {
                        self.is_directory(source, name)
                    }
                    kind => kind == FileType::Directory,
                }
            });
            directory.set_source_maps(maps);
            if let Err(errno) = read {
                self.complain(&directory, c"", Cause::Read(errno.into()));
            }
            names
        };
        self.levels.push(Level {
            directory,
            opened: Some(opened),
            names,
        });
        while self.levels.len() - self.first_open > self.options.most_open {
            let Level {
                directory, opened, ..
            } = &mut self.levels[self.first_open];
            directory.close(opened);
            self.first_open += 1;
        }
    }

    /// Leaves the directory at hand, whose names have all had their turn, and comes back to the one above.
    fn leave(&mut self) {
        let Some(Level {
            directory, opened, ..
        }) = self.levels.pop()
        else {
            return;
        };
        // It may not be searched any more once it has its own mode.
        self.come_back(opened.as_deref());
        let Some(opened) = opened else {
            directory.abandon();
            return;
        };
        if let Err(trouble) = directory.release(&opened) {
            (self.report)(trouble);
        }
    }

    /// Opens the directory at hand again, if it was closed. What is left of one that cannot be found again is passed over.
    fn come_back(&mut self, child: Option<&Opened>) {
        let Some(top) = self.levels.len().checked_sub(1) else {
            return;
        };
        if self.first_open <= top {
            return;
        }
        self.first_open = top;
        let level = &mut self.levels[top];
        match level.directory.open(child) {
            Ok(opened) => level.opened = Some(opened),
            Err(cause) => {
                level.names = Names::default();
                let directory = Arc::clone(&level.directory);
                self.complain(&directory, c"", cause);
            }
        }
    }

    /// Whether the name comes before others as a directory's does.
    fn is_directory(&self, directory: BorrowedFd<'_>, name: &CStr) -> bool {
        self.look(directory, name)
            .is_ok_and(|(stat, _)| is_directory(&stat))
    }

    /// What bears a name in the source.
    fn look(&self, directory: BorrowedFd<'_>, name: &CStr) -> Result<(Stat, Way), Errno> {
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_link = file_type(&stat) == FileType::Symlink;
        if is_link && self.options.follows_symlinks {
            let stat = rustix::fs::statat(directory, name, AtFlags::empty())?;
            return Ok((stat, Way::Link));
        }
        Ok((stat, Way::Direct))
    }

    /// Looks at one entry. A directory is entered, what is excluded passed over, and the rest given.
    fn examine(
        &mut self,
        directory: &Arc<Directory>,
        opened: Arc<Opened>,
        name: CString,
    ) -> Option<Entry> {
        let looked = self.look(opened.source(), &name);
        let is_directory = looked.as_ref().is_ok_and(|(stat, _)| is_directory(stat));
        let os_name = OsStr::from_bytes(name.to_bytes());
        let path = || directory.path_of(&name);
        if self.options.exclude.matches(os_name, is_directory, path) {
            return None;
        }
        match looked {
            Err(errno) => self.complain(directory, &name, Cause::Look(errno.into())),
            Ok((_, way)) if is_directory => {
                let descended = self.descend((directory, &opened), &name, way);
                // It is closed where descriptors are few.
                drop(opened);
                match descended {
                    Ok((child, opened)) => self.enter(Arc::new(child), opened),
                    Err(cause) => self.complain(directory, &name, cause),
                }
            }
            Ok((stat, way)) => return Some(Entry::new((directory, opened), name, stat, way)),
        }
        None
    }

    /// Opens a directory, and makes its copy.
    fn descend(
        &self,
        (parent, opened): (&Directory, &Arc<Opened>),
        name: &CStr,
        way: Way,
    ) -> Result<(Directory, Arc<Opened>), Cause> {
        let source = open(opened.source(), name, way).map_err(|errno| Cause::Open(errno.into()))?;
        let stat = rustix::fs::fstat(&source).map_err(|errno| Cause::Look(errno.into()))?;
        let source_identity = identity(&stat);
        let above = || self.levels.iter().map(|level| &level.directory);
        // Bind mounts and links that are followed lead anywhere, and what is filled on the way would be met again for ever.
        if above().any(|directory| directory.is_copy(source_identity)) {
            return Err(Cause::Contained);
        }
        if above().any(|directory| directory.is_source(source_identity)) {
            return Err(Cause::Loop);
        }
        let unusable = |errno: Errno| Cause::Destination(errno.into());
        let destination = opened.destination().as_fd();
        let is_new = destination::create(destination, name).map_err(unusable)?;
        if let Some(names) = self.names.filter(|_| !is_new) {
            let other = names.of_directory(parent, opened, name);
            if let Some(other) = other.map_err(Cause::Destination)? {
                return Err(Cause::OtherName(other));
            }
        }
        let made = destination::open(destination, name, is_new).map_err(unusable)?;
        let copy = rustix::fs::fstat(&made.directory).map_err(unusable)?;
        // A destination that the source is in may lead there again by the same names.
        if above().any(|directory| directory.is_source(identity(&copy))) {
            // It is reported already.
            let _ = made.restore_mode();
            return Err(Cause::IntoSource);
        }
        Directory::below((parent, opened), (name, way), (source, stat), made).map_err(unusable)
    }

    fn complain(&mut self, directory: &Directory, name: &CStr, cause: Cause) {
        let path = if name.is_empty() {
            directory.path()
        } else {
            directory.path_of(name)
        };
        (self.report)(Trouble::new(path, cause));
    }
}

impl<R: FnMut(Trouble)> Iterator for Walk<'_, R> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            let is_stopped = self.options.is_stopped();
            let level = self.levels.last_mut()?;
            if !is_stopped && let (Some(name), Some(opened)) = (level.names.next(), &level.opened) {
                let (directory, opened) = (Arc::clone(&level.directory), Arc::clone(opened));
                if let Some(entry) = self.examine(&directory, opened, name) {
                    return Some(entry);
                }
            } else {
                self.leave();
            }
        }
    }
}

/// Opens a directory of the source, as it was looked at.
pub(super) fn open(parent: BorrowedFd<'_>, name: &CStr, way: Way) -> Result<OwnedFd, Errno> {
    let flags = match way {
        Way::Direct => DIRECTORY,
        Way::Link => DIRECTORY - OFlags::NOFOLLOW,
    };
    rustix::fs::openat(parent, name, flags, Mode::empty())
}
