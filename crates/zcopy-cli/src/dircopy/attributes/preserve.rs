//! Which attributes a copy takes from its original.

use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Mode};

use super::xattrs::{Space, Target, default_mode, mode_without_list};

/// Which attributes a copy takes from its original, as `--preserve` of `cp(1)` lists them. Times are always among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preserve {
    /// User and group. Otherwise the copy has those of the process, or of the directory if that has the set-group-ID bit.
    pub owner: bool,
    /// Permissions.
    pub permissions: Permissions,
    /// Extended attributes other than access lists. Otherwise they are neither copied nor removed.
    pub xattrs: bool,
    /// Access lists, unless permissions are not preserved: they hold those too. Otherwise they are neither copied nor removed.
    pub acls: bool,
}

/// Whose permissions a copy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permissions {
    /// The original's.
    Original,
    /// What `open(2)` or `mkdir(2)` gives a new file or directory. What exists keeps its own.
    Created {
        /// The process's mask, which holds where the directory has no default access list.
        umask: Mode,
    },
}

/// What a copy takes the place of.
#[derive(Clone, Copy, Debug)]
pub enum Replaces<'a> {
    /// Nothing: it is new in this directory. A new directory has inherited the default access list, so that it may stand for its parent.
    Nothing {
        /// The directory.
        directory: BorrowedFd<'a>,
    },
    /// Something with this mode, which may be the directory itself.
    Mode(Mode),
}

impl Preserve {
    /// Everything.
    pub const ALL: Self = Self {
        owner: true,
        permissions: Permissions::Original,
        xattrs: true,
        acls: true,
    };

    /// Whether attributes of this kind are copied, and removed where the original has none.
    pub(super) fn has(self, space: Space) -> bool {
        match space {
            Space::AccessList | Space::AccessListOfXfs => {
                self.acls && self.permissions == Permissions::Original
            }
            Space::User | Space::Trusted | Space::Capability | Space::Other => self.xattrs,
        }
    }

    /// Whether there are extended attributes or access lists to look for.
    pub(super) fn has_any(self) -> bool {
        self.has(Space::User) || self.has(Space::AccessList)
    }

    /// The original's mode for a copy of it. Without the original's access list nobody may do more than with it.
    pub(super) fn original_mode(self, original: &Target<'_>, mode: Mode) -> Mode {
        if self.has(Space::AccessList) || mode.intersection(Mode::RWXG).is_empty() {
            return mode;
        }
        mode_without_list(original, mode)
    }

    /// The mode of a copy that does not have the original's. `current` is what the kernel gave it when it was created.
    pub(super) fn mode(
        self,
        replaces: Replaces<'_>,
        current: Mode,
        kind: FileType,
    ) -> Option<Mode> {
        let Permissions::Created { umask } = self.permissions else {
            return None;
        };
        let directory = match replaces {
            Replaces::Mode(mode) => return Some(mode),
            Replaces::Nothing { directory } => directory,
        };
        let (all, inherited) = match kind {
            // The group of the parent goes on downwards.
            FileType::Directory => (Mode::from_raw_mode(0o777), current & Mode::SGID),
            _ => (Mode::from_raw_mode(0o666), Mode::empty()),
        };
        let allowed = match default_mode(&Target::Open(directory)) {
            Some(mode) => all & mode,
            None => all - umask,
        };
        Some(allowed | inherited)
    }
}
