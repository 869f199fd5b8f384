//! A directory that is being copied.

use std::ffi::{CStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use rustix::fs::{Mode, Stat};
use rustix::io::Errno;

use super::colliding_names::{CollidingName, CollidingNames};
use super::destination::{self, Made};
use super::follow_link::FollowLink;
use super::map_names::MapNames;
use super::name_set::NameSet;
use super::options::{DirectoryAttributes, GivenTo};
use super::partials::Partials;
use super::path_node::PathNode;
use super::reopening::{self, DirectoryId, Tree};
use super::spelling::keeps_case;
use super::spelling::names::FoldableNames;
use super::walk_error::{Cause, WalkError};
use crate::dircopy::stat::{Birth, Identity, identity};
use crate::dircopy::write::metadata::{self, Replaces};
use crate::dircopy::write::partial_file::LeftPartial;

/// The descriptors of a directory of the source and of its copy. They are closed with the last
/// reference.
#[derive(Debug)]
pub(crate) struct OpenDirs {
    source: OwnedFd,
    destination: Arc<OwnedFd>,
}

impl OpenDirs {
    /// The directory in the source.
    #[must_use]
    pub(crate) fn source(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    /// The directory in the destination, for a
    /// [`AtomicFile`](crate::dircopy::write::atomic_file::AtomicFile) to own.
    #[must_use]
    pub(crate) fn destination(&self) -> &Arc<OwnedFd> {
        &self.destination
    }
}

/// A directory of the source as it was opened.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) directory: OwnedFd,
    pub(super) stat: Stat,
}

/// A directory of the source, and its copy. It holds no descriptor, so that thousands may wait.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The root, from which it is found again. `None` for the root itself, which is never closed.
    root: Option<Arc<OpenDirs>>,
    opened: Mutex<Weak<OpenDirs>>,
    /// The times of creation of the source and of the copy, read before they are closed.
    births: OnceLock<[Option<Birth>; 2]>,
    node: Arc<PathNode>,
    stat: Stat,
    /// The identity of the copy.
    copy: Identity,
    /// The mode that the copy had before the run. `None` if it did not exist.
    former_mode: Option<Mode>,
    /// The names that the copy had when it was opened. `None` if they could not be read.
    listed: Option<NameSet>,
    colliding: CollidingNames,
    foldable_names: OnceLock<FoldableNames>,
    keeps_case: OnceLock<bool>,
    attributes: DirectoryAttributes,
    /// Whether new files in the copy inherit an access list.
    hands_down: bool,
    /// The names in the source that may be damage maps, set when the walk has read them.
    source_maps: OnceLock<MapNames>,
    /// The names in the copy that may be damage maps.
    maps: MapNames,
    /// The partial files in the copy that earlier runs have left, once the walk has found them.
    partials: OnceLock<Partials>,
    /// Reference count: pending entries, and the walk or [`Root`](super::Root).
    users: AtomicUsize,
}

impl Directory {
    pub(super) fn root(
        source: Source,
        destination: Made,
        attributes: DirectoryAttributes,
    ) -> Result<(Self, Arc<OpenDirs>), Errno> {
        Self::new(None, PathNode::root(), source, destination, attributes)
    }

    /// A directory in this one, which is open.
    pub(super) fn child(
        &self,
        opened: &Arc<OpenDirs>,
        node: PathNode,
        source: Source,
        destination: Made,
    ) -> Result<(Self, Arc<OpenDirs>), Errno> {
        let root = Arc::clone(self.root.as_ref().unwrap_or(opened));
        Self::new(Some(root), node, source, destination, self.attributes)
    }

    /// The node of a directory in this one.
    pub(super) fn node_of(&self, name: &CStr, follow: FollowLink) -> PathNode {
        PathNode::below(&self.node, name, follow)
    }

    fn new(
        root: Option<Arc<OpenDirs>>,
        node: PathNode,
        Source {
            directory: source,
            stat,
        }: Source,
        Made {
            directory: destination,
            former_mode,
            listed,
            maps,
            leftovers: _,
        }: Made,
        attributes: DirectoryAttributes,
    ) -> Result<(Self, Arc<OpenDirs>), Errno> {
        let copy = identity(&rustix::fs::fstat(&destination)?);
        let hands_down = metadata::hands_down(&destination);
        let opened = Arc::new(OpenDirs {
            source,
            destination: Arc::new(destination),
        });
        let directory = Self {
            root,
            opened: Mutex::new(Arc::downgrade(&opened)),
            births: OnceLock::new(),
            node: Arc::new(node),
            stat,
            copy,
            former_mode,
            listed,
            colliding: CollidingNames::default(),
            foldable_names: OnceLock::new(),
            keeps_case: OnceLock::new(),
            attributes,
            source_maps: OnceLock::new(),
            maps,
            partials: OnceLock::new(),
            hands_down,
            users: AtomicUsize::new(1),
        };
        Ok((directory, opened))
    }

    /// Drops this reference to the descriptors, which the last one closes.
    pub(super) fn close(&self, opened: &mut Option<Arc<OpenDirs>>) {
        if let Some(opened) = opened.take() {
            self.births
                .get_or_init(|| [Birth::of(opened.source()), Birth::of(opened.destination())]);
        }
    }

    /// Whether the directory is open.
    pub(super) fn is_open(&self) -> bool {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.strong_count() > 0
    }

    /// Opens the directory again, unless it is still open. `child` is a directory in it, if one is
    /// open.
    pub(super) fn open(&self, child: Option<&OpenDirs>) -> Result<Arc<OpenDirs>, Cause> {
        // A panic leaves it unchanged.
        let mut known = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = known.upgrade() {
            return Ok(opened);
        }
        let [source_birth, copy_birth] = self.births.get().copied().unwrap_or_default();
        let source_id = DirectoryId {
            identity: identity(&self.stat),
            birth: source_birth,
        };
        let copy_id = DirectoryId {
            identity: self.copy,
            birth: copy_birth,
        };
        let source = child.and_then(|child| reopening::above(child.source(), source_id));
        let copy = child.and_then(|child| reopening::above(child.destination().as_fd(), copy_id));
        let by_names = |tree, id| {
            let root = self.root.as_ref().ok_or(Errno::BADF)?;
            let root = match tree {
                Tree::Source => root.source(),
                Tree::Destination => root.destination().as_fd(),
            };
            reopening::by_names(root, &self.node, tree, id)
        };
        let source = match source {
            Some(source) => source,
            None => by_names(Tree::Source, source_id).map_err(Cause::Open)?,
        };
        let destination = match copy {
            Some(copy) => copy,
            None => by_names(Tree::Destination, copy_id).map_err(Cause::Destination)?,
        };
        let opened = Arc::new(OpenDirs {
            source,
            destination: Arc::new(destination),
        });
        *known = Arc::downgrade(&opened);
        Ok(opened)
    }

    /// Whether the original is this directory.
    pub(super) fn is_source(&self, directory: Identity) -> bool {
        identity(&self.stat) == directory
    }

    /// Whether the copy is this directory.
    pub(super) fn is_copy(&self, directory: Identity) -> bool {
        self.copy == directory
    }

    /// Whether the walk has created the copy, which was empty then.
    pub(super) fn is_new(&self) -> bool {
        self.former_mode.is_none()
    }

    /// Whether the copy had this name when it was opened. `None` if its names could not be read.
    pub(crate) fn was_listed(&self, name: &CStr) -> Option<bool> {
        Some(self.listed.as_ref()?.has(name))
    }

    /// The names of the source that the copy may not tell apart, sorted. The first call finds them.
    pub(crate) fn colliding(
        &self,
        find: impl FnOnce() -> io::Result<Vec<CollidingName>>,
    ) -> io::Result<Arc<[CollidingName]>> {
        self.colliding.get(find)
    }

    /// The names in the copy. The first call lists them.
    pub(crate) fn foldable_names(&self, opened: &OpenDirs) -> Result<&FoldableNames, Errno> {
        if let Some(names) = self.foldable_names.get() {
            return Ok(names);
        }
        let names = FoldableNames::list(opened.destination().as_fd())?;
        // Another thread may have listed the directory in the meantime.
        Ok(self.foldable_names.get_or_init(|| names))
    }

    /// Whether the copy lists names in the case in which they were created. The first call tries
    /// it.
    pub(crate) fn keeps_case(&self, opened: &OpenDirs) -> bool {
        let probe = || keeps_case(opened.destination().as_fd());
        *self.keeps_case.get_or_init(probe)
    }

    /// Sets the partial files in the copy.
    pub(super) fn set_partials(&self, partials: Partials) {
        // The walk enters each directory once.
        let _ = self.partials.set(partials);
    }

    /// Takes the partial file that an earlier run has left for the copy of this name.
    pub(crate) fn take_partial(&self, name: &CStr) -> Option<LeftPartial> {
        self.partials.get()?.take(name)
    }

    /// Leaves the partial file for the copy of this name to another run.
    pub(crate) fn keep_partial(&self, name: &CStr) {
        if let Some(partials) = self.partials.get() {
            partials.keep(name);
        }
    }

    /// Leaves all partial files in the copy to another run: the walk misses names of the source.
    pub(super) fn keep_partials(&self) {
        if let Some(partials) = self.partials.get() {
            partials.keep_all();
        }
    }

    /// Sets the names in the source that may be damage maps.
    pub(super) fn set_source_maps(&self, names: MapNames) {
        // The walk reads each directory once.
        let _ = self.source_maps.set(names);
    }

    /// Whether the source may have this name, which is that of a damage map.
    pub(super) fn may_have_source_map(&self, name: &CStr) -> bool {
        let names = self.source_maps.get();
        names.is_some_and(|names| names.may_have(name))
    }

    /// Whether the copy may have had this name, which is that of a damage map, when it was opened.
    pub(super) fn may_have_map(&self, name: &CStr) -> bool {
        self.maps.may_have(name)
    }

    /// Whether neither the source nor the copy has names of damage maps.
    pub(super) fn has_no_maps(&self) -> bool {
        self.maps.is_empty() && self.source_maps.get().is_none_or(MapNames::is_empty)
    }

    /// The device that the copy is on.
    #[must_use]
    pub(crate) fn destination_device(&self) -> u64 {
        self.copy.0
    }

    /// Whether new files in the copy inherited an access list when it was opened.
    #[must_use]
    pub(crate) fn hands_down(&self) -> bool {
        self.hands_down
    }

    /// The status of the original when it was opened.
    #[must_use]
    pub(crate) fn stat(&self) -> &Stat {
        &self.stat
    }

    /// The path from the root; empty for the root.
    #[must_use]
    pub(crate) fn path(&self) -> PathBuf {
        OsString::from_vec(self.node.path()).into()
    }

    /// The path from the root of an entry.
    #[must_use]
    pub(crate) fn path_of(&self, name: &CStr) -> PathBuf {
        OsString::from_vec(self.node.path_of(name.to_bytes())).into()
    }

    /// Adds a user, until whose [`release`](Self::release) the copy keeps its private mode.
    pub(super) fn retain(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a user. After the last one the copy gets its attributes, or its former mode.
    pub(super) fn release(&self, opened: &OpenDirs) -> Result<(), WalkError> {
        // AcqRel: the last user sees all changes that the others made in the directory.
        if self.users.fetch_sub(1, Ordering::AcqRel) > 1 {
            return Ok(());
        }
        let directory = opened.destination.as_fd();
        if let Some(partials) = self.partials.get() {
            partials.end(opened.source(), directory);
        }
        let DirectoryAttributes { preserve, given_to } = self.attributes;
        let replaces = match (self.former_mode, given_to) {
            (None, _) => Replaces::Nothing { directory },
            (Some(mode), GivenTo::All) => Replaces::Mode(mode),
            (Some(mode), GivenTo::New) => {
                let dated = metadata::apply_times(directory, &self.stat)
                    .map_err(|error| WalkError::new(self.path(), Cause::Attributes(error)));
                return destination::restore_mode(directory, mode)
                    .map_err(|errno| WalkError::new(self.path(), Cause::Mode(errno.into())))
                    .and(dated);
            }
        };
        metadata::apply(&opened.source, directory, &self.stat, preserve, replaces)
            .map_err(|error| WalkError::new(self.path(), Cause::Attributes(error)))
    }

    /// Removes a user that could not open the directory again. If it is the last one, the copy
    /// keeps the mode that it was made with, 0700.
    pub(super) fn abandon(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }
}
