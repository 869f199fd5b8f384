//! Which attributes a copy takes from its original.

use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Mode};

use super::xattrs::{Space, Target, default_mode, mode_without_list};

/// Which attributes a copy takes from its original, as `--preserve` of `cp(1)` lists them. Times
/// are always among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preserve {
    /// User and group. Otherwise the kernel chooses: the user of the process, and its group or, if
    /// the directory has the set-group-ID bit, the directory's group.
    pub(crate) owner: bool,
    /// Permissions.
    pub(crate) permissions: Permissions,
    /// Extended attributes other than access lists. Otherwise they are neither copied nor removed.
    pub(crate) xattrs: bool,
    /// Access lists, if permissions are preserved too, which they include. Otherwise they are
    /// neither copied nor removed.
    pub(crate) acls: bool,
}

/// The permissions that a copy gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permissions {
    /// The original's.
    Original,
    /// The permissions that `open(2)` or `mkdir(2)` gives a new file or directory. Existing ones
    /// keep their own.
    Created {
        /// The umask of the process, which counts if the directory has no default access list.
        umask: Mode,
    },
}

/// The file or directory that a copy replaces.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Replaces<'a> {
    /// Nothing: the copy is new in a directory.
    Nothing {
        /// That directory, or the copy itself if it is a directory, since it has inherited the
        /// default access list.
        directory: BorrowedFd<'a>,
    },
    /// A file with this mode, or the directory that is being filled.
    Mode(Mode),
}

impl Preserve {
    /// Everything.
    pub(crate) const ALL: Self = Self {
        owner: true,
        permissions: Permissions::Original,
        xattrs: true,
        acls: true,
    };

    /// Whether attributes of this name space are copied, and removed if the original lacks them.
    pub(super) fn has(self, space: Space) -> bool {
        match space {
            Space::AccessList | Space::AccessListOfXfs => {
                self.acls && self.permissions == Permissions::Original
            }
            Space::User | Space::Trusted | Space::Capability | Space::Other => self.xattrs,
        }
    }

    /// Whether any extended attributes or access lists are copied.
    pub(super) fn has_any(self) -> bool {
        self.has(Space::User) || self.has(Space::AccessList)
    }

    /// The mode of a copy that gets its original's. If the access list is not copied, the mode
    /// grants no more than the list did.
    pub(super) fn original_mode(self, original: &Target<'_>, mode: Mode) -> Mode {
        if self.has(Space::AccessList) || mode.intersection(Mode::RWXG).is_empty() {
            return mode;
        }
        mode_without_list(original, mode)
    }

    /// The mode of a copy that does not get its original's; `None` if it does. `current` is the
    /// mode that the kernel gave it.
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
            // A new directory inherits the set-group-ID bit.
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
