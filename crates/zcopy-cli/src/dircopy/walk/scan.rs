//! Lists one tree, in no particular order.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::follow_link::FollowLink;
use super::listing;
use super::names::{Collector, Names, Spill};
use super::path_node::PathNode;
use super::reopening::{self, DirectoryId, Tree};
use super::{DIRECTORY, reopen};
use crate::dircopy::stat::file_type;

/// Options of a scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanOptions {
    pub(crate) follows_symlinks: bool,
    pub(crate) one_file_system: bool,
    /// The most levels of the tree to keep open; at least one. One more is open for a moment.
    pub(crate) most_open: usize,
}

/// An entry of the tree.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    /// The directory of the entry.
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) node: &'a PathNode,
    pub(crate) name: &'a CStr,
    /// The type of the entry, or of its target if symbolic links are followed.
    pub(crate) kind: FileType,
}

impl Found<'_> {
    /// The path from the root.
    pub(crate) fn path(&self) -> Vec<u8> {
        self.node.path_of(self.name.to_bytes())
    }

    /// The path from the root of the directory of the entry.
    pub(crate) fn directory_path(&self) -> Vec<u8> {
        self.node.path()
    }
}

/// An entry that cannot be examined.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The path from the root.
    pub(crate) path: Vec<u8>,
    pub(crate) error: io::Error,
}

/// The next action after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Continue, and enter the entry if it is a directory.
    Enter,
    /// Continue, and do not enter the directory.
    Pass,
    /// End the scan.
    Stop,
}

/// Calls `show` for every entry beneath a directory. An entry that cannot be examined is shown as
/// an error, and skipped.
///
/// Nothing is opened by its path, which may be longer than the kernel accepts.
pub(crate) fn scan(
    root: BorrowedFd<'_>,
    mut options: ScanOptions,
    show: impl FnMut(Result<Found<'_>, Failure>) -> Next,
) {
    let spill = Spill::in_place_of_level(&mut options.most_open);
    let mut scan = Scan {
        root,
        options,
        show,
        device: None,
        levels: Vec::new(),
        first_open: 0,
        spill,
    };
    if scan.begin().is_some() {
        while scan.step().is_some() {}
    }
}

struct Scan<'a, S> {
    root: BorrowedFd<'a>,
    options: ScanOptions,
    show: S,
    /// The device of the root, once that was examined.
    device: Option<u64>,
    /// The directories from the root to the current one.
    levels: Vec<Level>,
    /// The index of the first open level. All levels after it are open too.
    first_open: usize,
    /// Where names of many directories are stored.
    spill: Spill,
}

struct Level {
    /// `None` if the directory is closed, or could not be opened again.
    directory: Option<OwnedFd>,
    /// Set when the directory is closed, and from the beginning if loops or other file systems must
    /// be detected.
    id: Option<DirectoryId>,
    node: Arc<PathNode>,
    /// The directories in it that have not been entered.
    names: Names,
}

/// Each step returns `None` to end the scan.
impl<S: FnMut(Result<Found<'_>, Failure>) -> Next> Scan<'_, S> {
    fn begin(&mut self) -> Option<()> {
        // The offset of the caller's descriptor must not change.
        match reopen(self.root, c".") {
            Ok(root) => self.enter(root, PathNode::root()),
            Err(errno) => self.fail(&PathNode::root(), errno.into()),
        }
    }

    /// Enters the next directory, or leaves the current one.
    fn step(&mut self) -> Option<()> {
        let level = self.levels.last_mut()?;
        let name = match level.names.next() {
            Ok(name) => name,
            Err(error) => {
                level.names = Names::default();
                let node = Arc::clone(&level.node);
                return self.fail(&node, error);
            }
        };
        let (Some(name), Some(directory)) = (name, &level.directory) else {
            return self.leave();
        };
        let (flags, follow) = if self.options.follows_symlinks {
            (DIRECTORY - OFlags::NOFOLLOW, FollowLink::Yes)
        } else {
            (DIRECTORY, FollowLink::No)
        };
        let opened = rustix::fs::openat(directory, &*name, flags, Mode::empty());
        let node = PathNode::below(&level.node, &name, follow);
        match opened {
            Ok(opened) => self.enter(opened, node),
            Err(errno) => self.fail(&node, errno.into()),
        }
    }

    fn enter(&mut self, directory: OwnedFd, node: PathNode) -> Option<()> {
        let mut id = None;
        if self.options.follows_symlinks || self.options.one_file_system {
            let found = match DirectoryId::of(&directory) {
                Ok(found) => found,
                Err(errno) => return self.fail(&node, errno.into()),
            };
            let device = *self.device.get_or_insert(found.identity.0);
            if self.options.one_file_system && found.identity.0 != device {
                return Some(());
            }
            if self.levels.iter().any(|level| level.id == Some(found)) {
                return self.fail(&node, Errno::LOOP.into());
            }
            id = Some(found);
        }
        let names = self.read(directory.as_fd(), &node)?;
        self.levels.push(Level {
            directory: Some(directory),
            id,
            node: Arc::new(node),
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

    /// Shows the entries of a directory. Returns the directories to enter.
    fn read(&mut self, directory: BorrowedFd<'_>, node: &PathNode) -> Option<Names> {
        let follows = self.options.follows_symlinks;
        let mut names = Collector::new(&mut self.spill);
        let mut is_over = false;
        let show = &mut self.show;
        let read = listing::each(directory, |name, kind| {
            if is_over {
                return;
            }
            let found = kind_of(directory, name, kind, follows).map(|kind| Found {
                directory,
                node,
                name,
                kind,
            });
            let is_directory = found
                .as_ref()
                .is_ok_and(|found| found.kind == FileType::Directory);
            let failure = |errno: Errno| Failure {
                path: node.path_of(name.to_bytes()),
                error: errno.into(),
            };
            match show(found.map_err(failure)) {
                Next::Enter if is_directory => names.add(name, true),
                Next::Enter | Next::Pass => {}
                Next::Stop => is_over = true,
            }
        });
        if is_over {
            return None;
        }
        let names = names.finish();
        if let Err(errno) = read {
            self.fail(node, errno.into())?;
        }
        match names {
            Ok(names) => Some(names),
            Err(error) => self.fail(node, error).map(|()| Names::default()),
        }
    }

    /// Returns to the directory above.
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
            node,
            names,
        } = &mut self.levels[top];
        let opened = match *id {
            None => Err(Errno::BADF.into()),
            Some(id) => {
                let below = child.directory.as_ref();
                let above = below.and_then(|child| reopening::above(child.as_fd(), id));
                // The descriptor of the child may be the one that `by_names` needs.
                drop(child);
                let by_names = || reopening::by_names(self.root, node, Tree::Source, id);
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
                let node = Arc::clone(node);
                self.fail(&node, error)
            }
        }
    }

    fn fail(&mut self, node: &PathNode, error: io::Error) -> Option<()> {
        let path = node.path();
        ((self.show)(Err(Failure { path, error })) != Next::Stop).then_some(())
    }
}

/// The type of an entry, or of its target if `follows` and it is a symbolic link.
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
