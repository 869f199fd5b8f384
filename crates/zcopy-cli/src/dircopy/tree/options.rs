//! What a walk can be told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::exclude::Exclude;
use crate::dircopy::attributes::Preserve;

/// Which attributes the directories of the destination get when they have been filled. By default all that their originals have.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryAttributes {
    /// Those that are preserved.
    pub preserve: Preserve,
    /// Which directories get them.
    pub given_to: GivenTo,
}

/// Which directories get the attributes of their originals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenTo {
    /// Every one.
    All,
    /// Those that the walk creates. The others keep their owner, mode, extended attributes and access lists, and get the times.
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

/// What a [walk](super::Walk) can be told. By default everything is copied as it is.
#[derive(Clone, Debug)]
pub struct Options {
    pub(super) most_open: usize,
    pub(super) follows_symlinks: bool,
    pub(super) one_file_system: bool,
    pub(super) exclude: Exclude,
    stop: Arc<AtomicBool>,
}

impl Options {
    /// The default.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many levels of the tree stay open, each with two descriptors; one at least. Those above are closed, and opened again when
    /// the walk comes back. By default all stay open.
    #[must_use]
    pub fn most_open(mut self, n_levels: usize) -> Self {
        self.most_open = n_levels.max(1);
        self
    }

    /// Whether what symbolic links lead to is copied in their place.
    #[must_use]
    pub fn follow_symlinks(mut self, follow: bool) -> Self {
        self.follows_symlinks = follow;
        self
    }

    /// Whether directories on another file system than the root are made, but not entered.
    #[must_use]
    pub fn one_file_system(mut self, one: bool) -> Self {
        self.one_file_system = one;
        self
    }

    /// What is left out.
    #[must_use]
    pub fn exclude(mut self, exclude: Exclude) -> Self {
        self.exclude = exclude;
        self
    }

    /// Ends the walk early when the flag is set. Directories that were entered get their attributes
    /// all the same.
    #[must_use]
    pub fn stop(mut self, flag: Arc<AtomicBool>) -> Self {
        self.stop = flag;
        self
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
            stop: Arc::default(),
        }
    }
}
