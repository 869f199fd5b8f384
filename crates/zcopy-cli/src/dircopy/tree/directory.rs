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

use super::destination::{self, Made};
use super::entry::Way;
use super::map_names::MapNames;
use super::options::{DirectoryAttributes, GivenTo};
use super::reopening::{self, Birth, DirectoryId, Tree};
use super::rivals::{RivalName, Rivals};
use super::trail::Trail;
use super::trouble::{Cause, Trouble};
use crate::dircopy::attributes::{self, Replaces};
use crate::dircopy::containment::{Identity, identity};
use crate::dircopy::listed::Listed;
use crate::dircopy::spelling::keeps_case;
use crate::dircopy::spelling::names::FoldableNames;

/// The descriptors of a directory of the source and of its copy. They are closed when nobody needs them.
#[derive(Debug)]
pub struct Opened {
    source: OwnedFd,
    destination: Arc<OwnedFd>,
}

impl Opened {
    /// The directory in the source.
    #[must_use]
    pub fn source(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    /// The directory in the destination, for a [`Place`](crate::dircopy::place::Place) to own.
    #[must_use]
    pub fn destination(&self) -> &Arc<OwnedFd> {
        &self.destination
    }
}

/// A directory of the source, and its copy. It keeps nothing open itself, so that thousands may wait.
#[derive(Debug)]
pub struct Directory {
    /// From where it is found again. `None` for the root itself, which is never closed.
    root: Option<Arc<Opened>>,
    opened: Mutex<Weak<Opened>>,
    /// Those of the source and of the copy, known once one of the two was closed.
    births: OnceLock<[Option<Birth>; 2]>,
    trail: Arc<Trail>,
    stat: Stat,
    /// Which directory the copy is.
    copy: Identity,
    /// The mode that the copy had before the run. None if it did not exist.
    former_mode: Option<Mode>,
    /// The names that the copy had when it was opened, unless they could not be read.
    listed: Option<Listed>,
    rivals: Rivals,
    foldable_names: OnceLock<FoldableNames>,
    keeps_case: OnceLock<bool>,
    attributes: DirectoryAttributes,
    /// Whether files made in the copy get an access list from it.
    hands_down: bool,
    /// The names in the source that maps of damaged files may have, once the walk has
    /// read them.
    source_maps: OnceLock<MapNames>,
    /// The names in the copy that maps of damaged files may have.
    maps: MapNames,
    /// How many have not said yet that they are done: entries, and whoever still looks for some.
    users: AtomicUsize,
}

impl Directory {
    pub(super) fn root(
        source: (OwnedFd, Stat),
        destination: Made,
        attributes: DirectoryAttributes,
    ) -> Result<(Self, Arc<Opened>), Errno> {
        Self::new(None, Trail::root(), source, destination, attributes)
    }

    pub(super) fn below(
        parent: (&Self, &Arc<Opened>),
        (name, way): (&CStr, Way),
        source: (OwnedFd, Stat),
        destination: Made,
    ) -> Result<(Self, Arc<Opened>), Errno> {
        let (parent, opened) = parent;
        let root = Arc::clone(parent.root.as_ref().unwrap_or(opened));
        let trail = Trail::below(&parent.trail, name, way);
        Self::new(Some(root), trail, source, destination, parent.attributes)
    }

    fn new(
        root: Option<Arc<Opened>>,
        trail: Trail,
        (source, stat): (OwnedFd, Stat),
        Made {
            directory: destination,
            former_mode,
            listed,
            maps,
        }: Made,
        attributes: DirectoryAttributes,
    ) -> Result<(Self, Arc<Opened>), Errno> {
        let copy = identity(&rustix::fs::fstat(&destination)?);
        let hands_down = attributes::hands_down(&destination);
        let opened = Arc::new(Opened {
            source,
            destination: Arc::new(destination),
        });
        let directory = Self {
            root,
            opened: Mutex::new(Arc::downgrade(&opened)),
            births: OnceLock::new(),
            trail: Arc::new(trail),
            stat,
            copy,
            former_mode,
            listed,
            rivals: Rivals::default(),
            foldable_names: OnceLock::new(),
            keeps_case: OnceLock::new(),
            attributes,
            source_maps: OnceLock::new(),
            maps,
            hands_down,
            users: AtomicUsize::new(1),
        };
        Ok((directory, opened))
    }

    /// Closes it, if nobody else needs it open.
    pub(super) fn close(&self, opened: &mut Option<Arc<Opened>>) {
        if let Some(opened) = opened.take() {
            self.births
                .get_or_init(|| [Birth::of(opened.source()), Birth::of(opened.destination())]);
        }
    }

    /// Whether anybody has it open.
    pub(super) fn is_open(&self) -> bool {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.strong_count() > 0
    }

    /// Opens it again, unless it is still open. `child` is a directory below it, if one is open.
    pub(super) fn open(&self, child: Option<&Opened>) -> Result<Arc<Opened>, Cause> {
        // It is never half changed.
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
            reopening::by_names(root, &self.trail, tree, id)
        };
        let source = match source {
            Some(source) => source,
            None => by_names(Tree::Source, source_id).map_err(Cause::Open)?,
        };
        let destination = match copy {
            Some(copy) => copy,
            None => by_names(Tree::Destination, copy_id).map_err(Cause::Destination)?,
        };
        let opened = Arc::new(Opened {
            source,
            destination: Arc::new(destination),
        });
        *known = Arc::downgrade(&opened);
        Ok(opened)
    }

    /// Whether it is what is copied here.
    pub(super) fn is_source(&self, directory: Identity) -> bool {
        identity(&self.stat) == directory
    }

    /// Whether it is what is filled here.
    pub(super) fn is_copy(&self, directory: Identity) -> bool {
        self.copy == directory
    }

    /// Whether the copy was made by the walk, so that nothing was in it.
    pub(super) fn is_new(&self) -> bool {
        self.former_mode.is_none()
    }

    /// Whether a name stood in the copy when it was opened. `None`, if that is not known.
    pub(in crate::dircopy) fn was_listed(&self, name: &CStr) -> Option<bool> {
        Some(self.listed.as_ref()?.has(name))
    }

    /// The names of the source that the copy may not tell apart, which are found the first time, and
    /// sorted.
    pub(in crate::dircopy) fn rivals(
        &self,
        find: impl FnOnce() -> io::Result<Vec<RivalName>>,
    ) -> io::Result<Arc<[RivalName]>> {
        self.rivals.get(find)
    }

    /// The names in the copy at some time since it was opened.
    pub(in crate::dircopy) fn foldable_names(
        &self,
        opened: &Opened,
    ) -> Result<&FoldableNames, Errno> {
        if let Some(names) = self.foldable_names.get() {
            return Ok(names);
        }
        let names = FoldableNames::list(opened.destination().as_fd())?;
        // Another thread may have listed it meanwhile.
        Ok(self.foldable_names.get_or_init(|| names))
    }

    /// Whether the copy lists names with the letters that they were made with.
    pub(in crate::dircopy) fn keeps_case(&self, opened: &Opened) -> bool {
        let probe = || keeps_case(opened.destination().as_fd());
        *self.keeps_case.get_or_init(probe)
    }

    /// Tells which names in the source maps of damaged files may have.
    pub(super) fn set_source_maps(&self, names: MapNames) {
        // A directory is read once.
        let _ = self.source_maps.set(names);
    }

    /// Whether the source may have this name, which maps of damaged files may have.
    pub(super) fn may_have_source_map(&self, name: &CStr) -> bool {
        let names = self.source_maps.get();
        names.is_some_and(|names| names.may_have(name))
    }

    /// Whether the copy may have had this name, which maps of damaged files may have, when it was
    /// opened.
    pub(super) fn may_have_map(&self, name: &CStr) -> bool {
        self.maps.may_have(name)
    }

    /// Whether there are no such names at all.
    pub(super) fn has_no_maps(&self) -> bool {
        self.maps.is_empty() && self.source_maps.get().is_none_or(MapNames::is_empty)
    }

    /// The device that the copy is on.
    #[must_use]
    pub fn destination_device(&self) -> u64 {
        self.copy.0
    }

    /// Whether files made in the copy get an access list from it, as it was when it was opened.
    #[must_use]
    pub fn hands_down(&self) -> bool {
        self.hands_down
    }

    /// What it was like when it was opened.
    #[must_use]
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Its path from the root, whose own is empty.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        OsString::from_vec(self.trail.path()).into()
    }

    /// The path from the root of what bears a name in it.
    #[must_use]
    pub fn path_of(&self, name: &CStr) -> PathBuf {
        OsString::from_vec(self.trail.path_of(name.to_bytes())).into()
    }

    /// One more of whom is waited for.
    pub(super) fn retain(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// One less. The last one gives the copy its attributes, or those back that it had, when all that the others did is done.
    pub(super) fn release(&self, opened: &Opened) -> Result<(), Trouble> {
        if self.users.fetch_sub(1, Ordering::AcqRel) > 1 {
            return Ok(());
        }
        let directory = opened.destination.as_fd();
        let DirectoryAttributes { preserve, given_to } = self.attributes;
        let replaces = match (self.former_mode, given_to) {
            (None, _) => Replaces::Nothing { directory },
            (Some(mode), GivenTo::All) => Replaces::Mode(mode),
            (Some(mode), GivenTo::New) => {
                let dated = attributes::apply_times(directory, &self.stat)
                    .map_err(|error| Trouble::new(self.path(), Cause::Attributes(error)));
                return destination::restore_mode(directory, mode)
                    .map_err(|errno| Trouble::new(self.path(), Cause::Mode(errno.into())))
                    .and(dated);
            }
        };
        attributes::apply(&opened.source, directory, &self.stat, preserve, replaces)
            .map_err(|error| Trouble::new(self.path(), Cause::Attributes(error)))
    }

    /// One less, who could not open it again, and has reported that. If it is the last one, the copy keeps the mode that it was made
    /// with, 0700.
    pub(super) fn abandon(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }
}
