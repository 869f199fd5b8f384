//! Walks the source tree.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::collision::CollisionCheck;
use super::destination::Origin;
use super::directory::{Directory, OpenDirs, Source};
use super::entry::Entry;
use super::follow_link::FollowLink;
use super::map_names::MapNames;
use super::names::{Names, Spill};
use super::options::Options;
use super::partials::Partials;
use super::walk_error::{Cause, WalkError};
use super::{DIRECTORY, destination};
use crate::dircopy::stat::identity;
use crate::dircopy::stat::{file_type, is_directory};
use crate::dircopy::write::atomic_file::temp_name;

/// The entries of a tree in the bytewise order of their paths, and its directories made in the
/// destination.
///
/// A directory is made before its first entry is returned. The walk keeps only the names in the
/// directories on the way to the current one.
#[derive(Debug)]
pub(crate) struct Walk<'a, R> {
    options: Options,
    report: R,
    /// Finds directories that have another name in the destination.
    names: Option<&'a dyn CollisionCheck>,
    /// The directories from the root to the current one.
    levels: Vec<Level>,
    /// The index of the first open level. All levels after it are open too.
    first_open: usize,
    device: u64,
    /// Where names of large directories are stored.
    spill: Spill,
}

/// A directory, and the names in it that are still to come.
#[derive(Debug)]
struct Level {
    directory: Arc<Directory>,
    /// `None` if the directory is closed. If it cannot be opened again, its remaining names are
    /// dropped.
    opened: Option<Arc<OpenDirs>>,
    names: Names,
}

impl<'a, R: FnMut(WalkError)> Walk<'a, R> {
    pub(super) fn new(
        root: &Arc<Directory>,
        opened: &Arc<OpenDirs>,
        mut options: Options,
        report: R,
        names: Option<&'a dyn CollisionCheck>,
    ) -> Self {
        let spill = Spill::in_place_of_level(&mut options.most_open);
        let mut walk = Self {
            options,
            report,
            names,
            levels: Vec::new(),
            first_open: 0,
            device: identity(root.stat()).0,
            spill,
        };
        root.retain();
        // Another walk may have read this descriptor. An error comes back when the directory is
        // read.
        let _ = rustix::fs::seek(opened.source(), SeekFrom::Start(0));
        walk.enter(Arc::clone(root), Arc::clone(opened));
        walk
    }

    /// Makes a directory the current one, and reads its names.
    fn enter(&mut self, directory: Arc<Directory>, opened: Arc<OpenDirs>) {
        let is_foreign = identity(directory.stat()).0 != self.device;
        let names = if self.options.one_file_system && is_foreign {
            Names::default()
        } else {
            let source = opened.source();
            let mut maps = MapNames::default();
            let mut spill = std::mem::take(&mut self.spill);
            let (names, read) = Names::read(source, &mut spill, |name, kind| {
                maps.add(name);
                match kind {
                    FileType::Unknown => self.is_directory(source, name),
                    FileType::Symlink if self.options.follows_symlinks => {
                        self.is_directory(source, name)
                    }
                    kind => kind == FileType::Directory,
                }
            });
            self.spill = spill;
            directory.set_source_maps(maps);
            if let Err(error) = read {
                directory.keep_partials();
                self.report_error(&directory, c"", Cause::Read(error));
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

    /// Leaves the current directory, and returns to the one above.
    fn leave(&mut self) {
        let Some(Level {
            directory, opened, ..
        }) = self.levels.pop()
        else {
            return;
        };
        // The way up leads through this directory, whose own mode may forbid that: so its mode is
        // set later.
        self.reopen_current(opened.as_deref());
        let Some(opened) = opened else {
            directory.abandon();
            return;
        };
        if let Err(error) = directory.release(&opened) {
            (self.report)(error);
        }
    }

    /// Opens the current directory again, if it was closed. If that fails, its remaining entries
    /// are skipped.
    fn reopen_current(&mut self, child: Option<&OpenDirs>) {
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
                directory.keep_partials();
                self.report_error(&directory, c"", cause);
            }
        }
    }

    /// Whether the name is sorted as a directory's.
    fn is_directory(&self, directory: BorrowedFd<'_>, name: &CStr) -> bool {
        self.stat(directory, name)
            .is_ok_and(|(stat, _)| is_directory(&stat))
    }

    /// The status of an entry of the source, or of its target.
    fn stat(&self, directory: BorrowedFd<'_>, name: &CStr) -> Result<(Stat, FollowLink), Errno> {
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_link = file_type(&stat) == FileType::Symlink;
        if is_link && self.options.follows_symlinks {
            let stat = rustix::fs::statat(directory, name, AtFlags::empty())?;
            return Ok((stat, FollowLink::Yes));
        }
        Ok((stat, FollowLink::No))
    }

    /// Enters a directory, skips an excluded entry, and returns any other.
    fn examine(
        &mut self,
        directory: Arc<Directory>,
        opened: Arc<OpenDirs>,
        name: CString,
    ) -> Option<Entry> {
        let found = self.stat(opened.source(), &name);
        let is_directory = found.as_ref().is_ok_and(|(stat, _)| is_directory(stat));
        let os_name = OsStr::from_bytes(name.to_bytes());
        let path = || directory.path_of(&name);
        if self.options.exclude.matches(os_name, is_directory, path) {
            return None;
        }
        match found {
            Err(errno) => {
                if errno != Errno::NOENT {
                    directory.keep_partial(&name);
                }
                self.report_error(&directory, &name, Cause::Stat(errno.into()));
            }
            Ok(_) if !is_directory && temp_name::is_temp_name(name.to_bytes()) => {
                self.report_error(&directory, &name, Cause::Unfinished);
            }
            Ok((_, follow)) if is_directory => {
                let descended = self.descend(&directory, &opened, &name, follow);
                // `enter` may close the directory, if this is the last reference.
                drop(opened);
                match descended {
                    Ok((child, opened)) => self.enter(Arc::new(child), opened),
                    Err(cause) => self.report_error(&directory, &name, cause),
                }
            }
            Ok((stat, follow)) => return Some(Entry::new(directory, opened, name, stat, follow)),
        }
        None
    }

    /// Opens a directory, and makes its copy.
    fn descend(
        &self,
        parent: &Directory,
        opened: &Arc<OpenDirs>,
        name: &CStr,
        follow: FollowLink,
    ) -> Result<(Directory, Arc<OpenDirs>), Cause> {
        let directory =
            open(opened.source(), name, follow).map_err(|errno| Cause::Open(errno.into()))?;
        let stat = rustix::fs::fstat(&directory).map_err(|errno| Cause::Stat(errno.into()))?;
        let source_identity = identity(&stat);
        let above = || self.levels.iter().map(|level| &level.directory);
        // Bind mounts and followed links may lead to any directory. One that is being filled would
        // never come to an end.
        if above().any(|directory| directory.is_copy(source_identity)) {
            return Err(Cause::Contained);
        }
        if above().any(|directory| directory.is_source(source_identity)) {
            return Err(Cause::Loop);
        }
        let unusable = |errno: Errno| Cause::Destination(errno.into());
        let destination = opened.destination().as_fd();
        let origin = destination::create(destination, name).map_err(unusable)?;
        if let Some(names) = self.names.filter(|_| origin == Origin::Existing) {
            let other = names.of_directory(parent, opened, name);
            if let Some(other) = other.map_err(Cause::Destination)? {
                return Err(Cause::OtherName(other));
            }
        }
        let made = destination::open(destination, name, origin).map_err(unusable)?;
        let copy = rustix::fs::fstat(&made.directory).map_err(unusable)?;
        // If the source is inside the destination, the same names may lead into the source.
        if above().any(|directory| directory.is_source(identity(&copy))) {
            // The caller reports the more important error.
            let _ = made.restore_mode();
            return Err(Cause::IntoSource);
        }
        let node = parent.node_of(name, follow);
        let keeps = |leftover: &CStr| {
            let path = || PathBuf::from(OsString::from_vec(node.path_of(leftover.to_bytes())));
            self.names.is_some_and(|names| names.has_record(&path()))
        };
        let trees = [directory.as_fd(), made.directory.as_fd()];
        let partials = Partials::of(&self.options, trees, &made.leftovers, keeps);
        let is_partial = |name: &CStr| partials.as_ref().is_some_and(|it| it.have_name(name));
        let keeps = |name: &CStr| is_partial(name) || keeps(name);
        made.leftovers.remove(made.directory.as_fd(), keeps);
        let source = Source { directory, stat };
        let (child, opened) = parent.child(opened, node, source, made).map_err(unusable)?;
        if let Some(partials) = partials {
            child.set_partials(partials);
        }
        Ok((child, opened))
    }

    fn report_error(&mut self, directory: &Directory, name: &CStr, cause: Cause) {
        let path = if name.is_empty() {
            directory.path()
        } else {
            directory.path_of(name)
        };
        (self.report)(WalkError::new(path, cause));
    }
}

impl<R: FnMut(WalkError)> Iterator for Walk<'_, R> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            let is_stopped = self.options.is_stopped();
            let level = self.levels.last_mut()?;
            let name = if is_stopped {
                Ok(None)
            } else {
                level.names.next()
            };
            match (name, &level.opened) {
                (Ok(Some(name)), Some(opened)) => {
                    let (directory, opened) = (Arc::clone(&level.directory), Arc::clone(opened));
                    if let Some(entry) = self.examine(directory, opened, name) {
                        return Some(entry);
                    }
                }
                (Ok(_), _) => self.leave(),
                (Err(error), _) => {
                    level.names = Names::default();
                    let directory = Arc::clone(&level.directory);
                    directory.keep_partials();
                    self.report_error(&directory, c"", Cause::Read(error));
                }
            }
        }
    }
}

/// Opens a directory of the source. A symbolic link is followed only if the walk did so before.
pub(super) fn open(
    parent: BorrowedFd<'_>,
    name: &CStr,
    follow: FollowLink,
) -> Result<OwnedFd, Errno> {
    let flags = match follow {
        FollowLink::No => DIRECTORY,
        FollowLink::Yes => DIRECTORY - OFlags::NOFOLLOW,
    };
    rustix::fs::openat(parent, name, flags, Mode::empty())
}
