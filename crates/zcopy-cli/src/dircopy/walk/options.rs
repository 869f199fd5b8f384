//! Options of a walk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::exclude::Exclude;
use crate::dircopy::write::metadata::Preserve;

/// The attributes that directories of the destination get when they have been filled [default: all,
/// for every directory].
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryAttributes {
    /// The attributes to preserve.
    pub(crate) preserve: Preserve,
    /// The directories that get them.
    pub(crate) given_to: GivenTo,
}

/// The directories that get the attributes of their originals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenTo {
    /// All directories.
    All,
    /// Directories that the walk creates. Existing ones get the times, and keep their owner, mode,
    /// extended attributes and access lists.
    New,
}

impl Default for DirectoryAttributes {
    fn default() -> Self {
        Self {
            preserve: Preserve::ALL,
            given_to: GivenTo::All,
        }
    }
}

/// The treatment of partial files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PartialFiles {
    /// They are removed, as other files that killed runs have left.
    #[default]
    Removed,
    /// They stay until it is certain that the run does not need them.
    Offered,
}

/// Options of a [walk](super::Walk). By default all entries are copied as they are.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(super) most_open: usize,
    pub(super) follows_symlinks: bool,
    pub(super) one_file_system: bool,
    pub(super) exclude: Exclude,
    pub(super) partial_files: PartialFiles,
    stop: Arc<AtomicBool>,
}

impl Options {
    /// The defaults.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Keeps at most this many levels of the tree open [default: all; at least one]. Each takes two
    /// descriptors. Levels above are closed, and opened again when the walk returns to them.
    #[must_use]
    pub(crate) fn most_open(mut self, n_levels: usize) -> Self {
        self.most_open = n_levels.max(1);
        self
    }

    /// Copies the targets of symbolic links instead of the links.
    #[must_use]
    pub(crate) fn follow_symlinks(mut self, follow: bool) -> Self {
        self.follows_symlinks = follow;
        self
    }

    /// Makes directories that are on another file system than the root, but does not enter them.
    #[must_use]
    pub(crate) fn one_file_system(mut self, one: bool) -> Self {
        self.one_file_system = one;
        self
    }

    /// Excludes entries.
    #[must_use]
    pub(crate) fn exclude(mut self, exclude: Exclude) -> Self {
        self.exclude = exclude;
        self
    }

    /// Treats the partial files of earlier runs like this.
    #[must_use]
    pub(crate) fn partial_files(mut self, partial_files: PartialFiles) -> Self {
        self.partial_files = partial_files;
        self
    }

    /// Ends the walk early when the flag is set. Directories that were entered still get their
    /// attributes.
    #[must_use]
    pub(crate) fn stop(mut self, flag: Arc<AtomicBool>) -> Self {
        self.stop = flag;
        self
    }

    /// The flag that ends the walk.
    pub(super) fn stop_flag(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Whether the walk is to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            most_open: usize::MAX,
            follows_symlinks: false,
            one_file_system: false,
            exclude: Exclude::default(),
            partial_files: PartialFiles::default(),
            stop: Arc::default(),
        }
    }
}
