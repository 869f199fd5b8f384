//! The source tree, walked in order, and its directories in the destination.
//!
//! A [`Root`] is the pair of trees. Its [`Walk`] makes the directories, and returns all other
//! [entries](Entry) in the bytewise order of their paths. They may be copied in any order and on
//! any thread. After the last [`Entry::done`] of a [`Directory`], its copy gets its attributes, and
//! does not change any more.
//!
//! Each level of the walk takes two descriptors, and so does each directory with pending entries.
//! Where descriptors are few, [levels above](Options::most_open) are closed, and so are directories
//! of entries that [wait](DeferredEntry). They are opened again when their turn comes, if they are
//! the same directories.
//!
//! - `walker`: the iterator over the source; `options` and `exclude`: which entries it returns.
//! - `names`: the sorted names in one directory; `listing`: lists them; `name_set`: a set of them.
//! - `directory` and `entry`: a directory and another entry, in both trees.
//! - `destination`: makes directories in the destination; `containment`: refuses a destination in
//!   the source.
//! - `path_node`: the path of a directory; `reopening`: opens directories again by it.
//! - `collision`, `colliding_names` and `spelling`: names that a file system may not tell apart.
//! - `map_names`: names that may be damage maps.
//! - `partials`: files that earlier runs have begun.
//! - `scan`: lists one tree, without a destination; `prescan`: counts its files and bytes.
//! - `walk_error`: the errors of a walk.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::write::atomic_file::temp_name::Leftovers;
use crate::common::sys;
use directory::Source;
use listing::is_empty;
use partials::Partials;

pub(crate) use colliding_names::CollidingName;
pub(crate) use collision::CollisionCheck;
pub(crate) use collision::OtherName;
pub(crate) use directory::{Directory, OpenDirs};
pub(crate) use entry::{DeferredDirs, DeferredEntry, Entry};
pub(crate) use exclude::{Effect, Exclude, Rule};
pub(crate) use options::{DirectoryAttributes, GivenTo, Options, PartialFiles};
pub(crate) use walk_error::{Cause, WalkError};
pub(crate) use walker::Walk;

pub(crate) mod containment;

pub(crate) mod listing;
pub(crate) mod name_set;
pub(crate) mod prescan;
pub(crate) mod spelling;

mod colliding_names;
mod collision;
mod destination;
mod directory;
mod entry;
mod exclude;
mod follow_link;
mod map_names;
mod names;
mod options;
mod partials;
mod path_node;
pub(crate) mod reopening;
pub(crate) mod scan;
mod walk_error;
mod walker;

/// How the directories of both trees are opened: no link is followed.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The source and the destination, both open.
#[derive(Debug)]
pub(crate) struct Root {
    directory: Arc<Directory>,
    opened: Arc<OpenDirs>,
    /// The names in the destination that killed runs may have left. The walk removes them.
    leftovers: Leftovers,
}

impl Root {
    /// Opens both trees. Directories get all attributes.
    #[cfg(test)]
    pub(crate) fn open(source: &Path, destination: &Path) -> Result<Self, WalkError> {
        Self::open_with(source, destination, DirectoryAttributes::default())
    }

    /// Opens the source and the destination, which is created, with all directories above it, if it
    /// does not exist.
    ///
    /// Both paths may be symbolic links. The soft limit of descriptors is raised to the hard limit.
    ///
    /// # Errors
    ///
    /// Those of [`containment::check`], `open(2)` and `mkdir(2)`; `ENOTDIR`, if the source is not a
    /// directory.
    pub(crate) fn open_with(
        source: &Path,
        destination: &Path,
        attributes: DirectoryAttributes,
    ) -> Result<Self, WalkError> {
        sys::allow_descriptors();
        let followed = DIRECTORY - OFlags::NOFOLLOW;
        let opened = rustix::fs::open(source, followed, Mode::empty())
            .map_err(|errno| WalkError::new(source, Cause::Open(errno.into())))?;
        let stat = rustix::fs::fstat(&opened)
            .map_err(|errno| WalkError::new(source, Cause::Stat(errno.into())))?;
        let refused = |error| WalkError::new(destination, Cause::Destination(error));
        containment::check(&stat, destination).map_err(refused)?;
        let mut made = destination::make_root(destination).map_err(refused)?;
        // Another process may have moved or replaced the destination since the first check.
        if let Err(error) = containment::check_open(&stat, made.directory.as_fd()) {
            // The caller reports the more important error.
            let _ = made.restore_mode();
            return Err(refused(error));
        }
        let leftovers = std::mem::take(&mut made.leftovers);
        let source = Source {
            directory: opened,
            stat,
        };
        let (directory, opened) =
            Directory::root(source, made, attributes).map_err(|errno| refused(errno.into()))?;
        let directory = Arc::new(directory);
        Ok(Self {
            directory,
            opened,
            leftovers,
        })
    }

    /// Walks the tree, and does not look for names that the destination does not tell apart.
    #[cfg(test)]
    pub(crate) fn walk<R: FnMut(WalkError)>(
        &self,
        options: Options,
        report: R,
    ) -> Walk<'static, R> {
        let destination = self.opened.destination().as_fd();
        self.leftovers.remove(destination, |_| false);
        Walk::new(&self.directory, &self.opened, options, report, None)
    }

    /// Walks the tree. The walk reports errors and continues after them. It reports directories
    /// that have another name in the destination, and does not enter them. Recorded files stay,
    /// whatever their names are.
    ///
    /// Two walks at the same time would read the same descriptor.
    pub(crate) fn walk_with<'a, R: FnMut(WalkError)>(
        &self,
        options: Options,
        names: &'a dyn CollisionCheck,
        report: R,
    ) -> Walk<'a, R> {
        let destination = self.opened.destination().as_fd();
        let source = self.opened.source();
        let is_recorded = |name: &CStr| names.has_record(&self.directory.path_of(name));
        let trees = [source, destination];
        let may_be_partial = options.partial_files == PartialFiles::Offered;
        let may_be_partial = may_be_partial && !self.leftovers.files().is_empty();
        if may_be_partial && is_empty(source).unwrap_or(false) {
            // Its disk may not be mounted: what an earlier run has left stays for a later one.
            return Walk::new(&self.directory, &self.opened, options, report, Some(names));
        }
        let partials = Partials::of(&options, trees, &self.leftovers, is_recorded);
        let is_partial = |name: &CStr| partials.as_ref().is_some_and(|it| it.have_name(name));
        let keeps = |name: &CStr| is_partial(name) || is_recorded(name);
        self.leftovers.remove(destination, keeps);
        if let Some(partials) = partials {
            self.directory.set_partials(partials);
        }
        Walk::new(&self.directory, &self.opened, options, report, Some(names))
    }

    /// The root's own directory.
    #[must_use]
    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Whether the destination did not exist before.
    pub(crate) fn is_new(&self) -> bool {
        self.directory.is_new()
    }

    /// The root of the source.
    #[must_use]
    pub(crate) fn source(&self) -> BorrowedFd<'_> {
        self.opened.source()
    }

    /// The root of the destination.
    #[must_use]
    pub(crate) fn destination(&self) -> &Arc<OwnedFd> {
        self.opened.destination()
    }

    /// Opens a directory of the destination by its path from the root.
    ///
    /// # Errors
    ///
    /// As [`open_beneath`].
    pub(crate) fn open_destination(&self, path: &Path) -> io::Result<OwnedFd> {
        open_beneath(self.destination().as_fd(), path)
    }

    /// Ends the work on the root of the destination. The root gets its attributes when the walk is
    /// over and all entries are done.
    ///
    /// # Errors
    ///
    /// The attribute that could not be kept.
    pub(crate) fn done(self) -> Result<(), WalkError> {
        self.directory.release(&self.opened)
    }
}

/// Opens a directory by its path from `root`.
///
/// # Errors
///
/// Those of `open(2)`; `ENOTDIR`, if the path leads through a symbolic link; `EINVAL`, if it has
/// other components than names.
pub(crate) fn open_beneath(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let mut directory = reopen(root, c".")?;
    for component in path.components() {
        let Component::Normal(name) = component else {
            return Err(Errno::INVAL.into());
        };
        let name = CString::new(name.as_bytes())?;
        directory = reopen(directory.as_fd(), &name)?;
    }
    Ok(directory)
}

/// Opens a directory in another.
fn reopen(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())
}

#[cfg(test)]
mod tests;
