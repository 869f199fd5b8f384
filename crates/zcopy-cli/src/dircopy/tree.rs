//! The source tree, walked in order, and its directories in the destination.
//!
//! A [`Root`] is the pair of trees. Its [`Walk`] makes the directories and gives everything else as [entries](Entry), in the bytewise
//! order of their paths, to be copied by whoever wants to, in any order, on any thread. An entry is told to be
//! [done](Entry::done); when the last of a [`Directory`] is, that gets its own attributes, which nothing changes from then on.
//!
//! Each level of the tree that is being walked takes two descriptors, and so does each directory with entries that are not done.
//! Where there are few, [levels above](Options::most_open) are closed, and so are directories of entries that [wait](Waiting); they are
//! opened again when their turn comes, if they are still where they were.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::containment;
use super::folded_names::FoldedNames;
use crate::sys;

pub use super::folded_names::OtherName;
pub use directory::{Directory, Opened};
pub use entry::{Entry, Waiting, WhileWaiting};
pub use exclude::{Exclude, PatternError};
pub use options::{DirectoryAttributes, GivenTo, Options};
pub(super) use rivals::RivalName;
pub use trouble::{Cause, Trouble};
pub use walk::Walk;

mod destination;
mod directory;
mod entry;
mod exclude;
mod map_names;
mod names;
mod options;
pub(super) mod reopening;
mod rivals;
pub(super) mod scan;
mod trail;
mod trouble;
mod walk;

/// How the directories of both trees are opened: no link is followed.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The source and the destination, both open.
///
/// # Examples
///
/// ```
/// use zcopy_cli::dircopy::tree::{Options, Root};
///
/// let scratch = tempfile::tempdir()?;
/// let source = scratch.path().join("source");
/// std::fs::create_dir_all(source.join("a"))?;
/// std::fs::write(source.join("a/b"), "")?;
/// std::fs::write(source.join("a.txt"), "")?;
///
/// let root = Root::open(&source, &scratch.path().join("destination"))?;
/// let mut paths = Vec::new();
/// for entry in root.walk(Options::new(), |trouble| panic!("{trouble}")) {
///     paths.push(entry.path());
///     entry.done()?;
/// }
/// root.done()?;
/// assert_eq!(paths, ["a.txt", "a/b"].map(std::path::PathBuf::from));
/// assert!(scratch.path().join("destination/a").is_dir());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Root {
    directory: Arc<Directory>,
    opened: Arc<Opened>,
}

impl Root {
    /// Opens the source, and the destination, which is made if it does not exist, with all directories above it.
    ///
    /// Both may be named by symbolic links. The limit of descriptors is raised as far as it goes.
    ///
    /// # Errors
    ///
    /// As [`containment::check`], and what `open(2)` and `mkdir(2)` say; `ENOTDIR` for a source that is no directory.
    pub fn open(source: &Path, destination: &Path) -> Result<Self, Trouble> {
        Self::open_with(source, destination, DirectoryAttributes::default())
    }

    /// The same, where directories get not all attributes, or not all directories.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(
        source: &Path,
        destination: &Path,
        attributes: DirectoryAttributes,
    ) -> Result<Self, Trouble> {
        sys::allow_descriptors();
        let followed = DIRECTORY - OFlags::NOFOLLOW;
        let opened = rustix::fs::open(source, followed, Mode::empty())
            .map_err(|errno| Trouble::new(source, Cause::Open(errno.into())))?;
        let stat = rustix::fs::fstat(&opened)
            .map_err(|errno| Trouble::new(source, Cause::Look(errno.into())))?;
        let refused = |error| Trouble::new(destination, Cause::Destination(error));
        containment::check(&stat, destination).map_err(refused)?;
        let made = destination::make_root(destination).map_err(refused)?;
        // Somebody may have been at work in between.
        containment::check_open(&stat, made.directory.as_fd()).map_err(refused)?;
        let (directory, opened) = Directory::root((opened, stat), made, attributes)
            .map_err(|errno| refused(errno.into()))?;
        let directory = Arc::new(directory);
        Ok(Self { directory, opened })
    }

    /// Walks the tree. What goes wrong on the way is reported, and the walk goes on behind it.
    ///
    /// One walk at a time: they would read the same descriptor.
    pub fn walk<R: FnMut(Trouble)>(&self, options: Options, report: R) -> Walk<'static, R> {
        Walk::new((&self.directory, &self.opened), options, report, None)
    }

    /// The same, and a directory that another name has in the destination is not entered.
    pub(super) fn walk_apart<'a, R: FnMut(Trouble)>(
        &self,
        options: Options,
        names: &'a FoldedNames<'a>,
        report: R,
    ) -> Walk<'a, R> {
        Walk::new(
            (&self.directory, &self.opened),
            options,
            report,
            Some(names),
        )
    }

    /// The root's own directory.
    #[must_use]
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// The root of the source.
    #[must_use]
    pub fn source(&self) -> BorrowedFd<'_> {
        self.opened.source()
    }

    /// The root of the destination.
    #[must_use]
    pub fn destination(&self) -> &Arc<OwnedFd> {
        self.opened.destination()
    }

    /// Opens a directory of the destination by its path from the root, for a hard link to what is in it.
    ///
    /// # Errors
    ///
    /// What `open(2)` says; `ENOTDIR`, if there is a symbolic link on the way; `EINVAL` for a path that is not
    /// made of names alone.
    pub fn open_destination(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut directory = reopen(self.destination().as_fd(), c".")?;
        for component in path.components() {
            let Component::Normal(name) = component else {
                return Err(Errno::INVAL.into());
            };
            let name = CString::new(name.as_bytes())?;
            directory = reopen(directory.as_fd(), &name)?;
        }
        Ok(directory)
    }

    /// Says that nothing more comes to the root of the destination. If the walk is over and all its entries are done, the
    /// root gets its attributes now; otherwise with the last of them.
    ///
    /// # Errors
    ///
    /// The attribute that could not be kept.
    pub fn done(self) -> Result<(), Trouble> {
        self.directory.release(&self.opened)
    }
}

/// Opens a directory in another.
fn reopen(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())
}

#[cfg(test)]
mod tests;
