//! One tree, looked through in no particular order.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::entry::Way;
use super::names::Names;
use super::reopening::{self, DirectoryId, Tree};
use super::trail::Trail;
use super::{DIRECTORY, reopen};
use crate::dircopy::listing;
use crate::dircopy::st_mode::file_type;

/// How a tree is looked through.
#[derive(Clone, Copy, Debug)]
pub(in crate::dircopy) struct ScanOptions {
    pub(in crate::dircopy) follows_symlinks: bool,
    pub(in crate::dircopy) one_file_system: bool,
    /// How many levels of the tree stay open; one at least. One more is open for a moment.
    pub(in crate::dircopy) most_open: usize,
}

/// Something that was found.
#[derive(Debug)]
pub(in crate::dircopy) struct Found<'a> {
    /// The directory that it is in.
    pub(in crate::dircopy) directory: BorrowedFd<'a>,
    pub(in crate::dircopy) trail: &'a Trail,
    pub(in crate::dircopy) name: &'a CStr,
    /// Of what a symbolic link leads to, if these are followed.
    pub(in crate::dircopy) kind: FileType,
}

impl Found<'_> {
    /// Its path from the root.
    pub(in crate::dircopy) fn path(&self) -> Vec<u8> {
        self.trail.path_of(self.name.to_bytes())
    }
}

/// Something that cannot be looked at.
#[derive(Debug)]
pub(in crate::dircopy) struct Failure {
    /// Its path from the root.
    pub(in crate::dircopy) path: Vec<u8>,
    pub(in crate::dircopy) error: io::Error,
}

/// What is to be done after something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dircopy) enum Next {
    /// Go on; a directory is entered.
    Enter,
    /// Go on, and do not enter the directory.
    Pass,
    /// Look no further.
    Stop,
}

/// Shows all that is below a directory. What cannot be looked at is shown as an error, and passed over.
///
/// Nothing is opened by its path, which may be longer than the kernel takes.
pub(in crate::dircopy) fn scan(
    root: BorrowedFd<'_>,
    options: ScanOptions,
    show: impl FnMut(Result<Found<'_>, Failure>) -> Next,
) {
    let mut scan = Scan {
        root,
        options,
        show,
        device: None,
        levels: Vec::new(),
        first_open: 0,
    };
    if scan.begin().is_some() {
        while scan.go_on().is_some() {}
    }
}

struct Scan<'a, S> {
    root: BorrowedFd<'a>,
    options: ScanOptions,
    show: S,
    /// The root's, if no other file system is entered.
    device: Option<u64>,
    /// The directory at hand, and those above it.
    levels: Vec<Level>,
    /// The first of them that is open; all behind it are.
    first_open: usize,
}

struct Level {
    /// `None` if it is closed, or could not be opened again.
    directory: Option<OwnedFd>,
    /// Known of one that was closed, or if it is needed.
    id: Option<DirectoryId>,
    trail: Arc<Trail>,
    /// The directories in it that have not been entered.
    names: Names,
}

/// Each step is `None` if the scan is to stop.
impl<S: FnMut(Result<Found<'_>, Failure>) -> Next> Scan<'_, S> {
    fn begin(&mut self) -> Option<()> {
        // The position of the root's own descriptor is somebody else's.
        match reopen(self.root, c".") {
            Ok(root) => self.enter(root, Trail::root()),
            Err(errno) => self.fail(&Trail::root(), errno.into()),
        }
    }

    /// Enters the next directory, or leaves the one at hand.
    fn go_on(&mut self) -> Option<()> {
        let level = self.levels.last_mut()?;
        let (Some(name), Some(directory)) = (level.names.next(), &level.directory) else {
            return self.leave();
        };
        let (flags, way) = if self.options.follows_symlinks {
            (DIRECTORY - OFlags::NOFOLLOW, Way::Link)
        } else {
            (DIRECTORY, Way::Direct)
        };
        let opened = rustix::fs::openat(directory, &*name, flags, Mode::empty());
        let trail = Trail::below(&level.trail, &name, way);
        match opened {
            Ok(opened) => self.enter(opened, trail),
            Err(errno) => self.fail(&trail, errno.into()),
        }
    }

    fn enter(&mut self, directory: OwnedFd, trail: Trail) -> Option<()> {
        let mut id = None;
        if self.options.follows_symlinks || self.options.one_file_system {
            let found = match DirectoryId::of(&directory) {
                Ok(found) => found,
                Err(errno) => return self.fail(&trail, errno.into()),
            };
            let device = *self.device.get_or_insert(found.identity.0);
            if self.options.one_file_system && found.identity.0 != device {
                return Some(());
            }
            if self.levels.iter().any(|level| level.id == Some(found)) {
                return self.fail(&trail, Errno::LOOP.into());
            }
            id = Some(found);
        }
        let names = self.read(directory.as_fd(), &trail)?;
        self.levels.push(Level {
            directory: Some(directory),
            id,
            trail: Arc::new(trail),
            names,
        });
        while self.levels.len() - self.first_open > self.options.most_open.max(1) {
            let level = &mut self.levels[self.first_open];
            if let (None, Some(directory)) = (level.id, &level.directory) {
                level.id = DirectoryId::of(directory).ok();
            }
            level.directory = None;
            self.first_open += 1;
        }
        Some(())
    }

    /// Shows what is in a directory. Returns the directories that are to be entered.
    fn read(&mut self, directory: BorrowedFd<'_>, trail: &Trail) -> Option<Names> {
        let follows = self.options.follows_symlinks;
        let mut names = Names::default();
        let mut is_over = false;
        let show = &mut self.show;
        let read = listing::each(directory, |name, kind| {
            if is_over {
                return;
            }
            let found = kind_of(directory, name, kind, follows).map(|kind| Found {
                directory,
                trail,
                name,
                kind,
            });
            let is_directory = found
                .as_ref()
                .is_ok_and(|found| found.kind == FileType::Directory);
            let failure = |errno: Errno| Failure {
                path: trail.path_of(name.to_bytes()),
                error: errno.into(),
            };
            match show(found.map_err(failure)) {
                Next::Enter if is_directory => {
                    if let Err(errno) = names.add(name, true) {
                        is_over = show(Err(failure(errno))) == Next::Stop;
                    }
                }
                Next::Enter | Next::Pass => {}
                Next::Stop => is_over = true,
            }
        });
        if is_over {
            return None;
        }
        names.sort();
        if let Err(errno) = read {
            self.fail(trail, errno.into())?;
        }
        Some(names)
    }

    /// Comes back to the directory above.
    fn leave(&mut self) -> Option<()> {
        let child = self.levels.pop()?;
        let top = self.levels.len().checked_sub(1)?;
        if self.first_open <= top {
            return Some(());
        }
        self.first_open = top;
        let Level {
            directory,
            id,
            trail,
            names,
        } = &mut self.levels[top];
        let opened = match *id {
            None => Err(Errno::BADF.into()),
            Some(id) => {
                let below = child.directory.as_ref();
                let above = below.and_then(|child| reopening::above(child.as_fd(), id));
                // There may not be one more descriptor than the other way takes.
                drop(child);
                let by_names = || reopening::by_names(self.root, trail, Tree::Source, id);
                above.map_or_else(by_names, Ok)
            }
        };
        match opened {
            Ok(opened) => {
                *directory = Some(opened);
                Some(())
            }
            Err(error) => {
                *names = Names::default();
                let trail = Arc::clone(trail);
                self.fail(&trail, error)
            }
        }
    }

    fn fail(&mut self, trail: &Trail, error: io::Error) -> Option<()> {
        let path = trail.path();
        ((self.show)(Err(Failure { path, error })) != Next::Stop).then_some(())
    }
}

/// What bears a name, or what that leads to.
fn kind_of(
    directory: BorrowedFd<'_>,
    name: &CStr,
    kind: FileType,
    follows: bool,
) -> Result<FileType, Errno> {
    let kind_by = |flags| {
        let stat = rustix::fs::statat(directory, name, flags)?;
        Ok(file_type(&stat))
    };
    match kind {
        FileType::Unknown => match kind_by(AtFlags::SYMLINK_NOFOLLOW)? {
            FileType::Symlink if follows => kind_by(AtFlags::empty()),
            kind => Ok(kind),
        },
        FileType::Symlink if follows => kind_by(AtFlags::empty()),
        kind => Ok(kind),
    }
}
