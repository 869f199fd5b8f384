//! Attributes that could not be kept.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Mode, Stat};
use rustix::io::Errno;

use super::Owner;
use crate::dircopy::file_system;
use crate::dircopy::limitation::Limitation;

/// An attribute that could not be kept. Of several it is the first, and the others are counted.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep {attribute}{}", and_more(*.n_more))]
pub struct Error {
    attribute: Attribute,
    n_more: usize,
    #[source]
    cause: io::Error,
    /// What the file system lacks, if that explains all that could not be kept.
    limitations: Vec<Limitation>,
}

fn and_more(n_more: usize) -> String {
    match n_more {
        0 => String::new(),
        n => format!(" and {n} more"),
    }
}

impl Error {
    pub(super) fn new(attribute: Attribute, errno: Errno) -> Self {
        Self {
            limitations: attribute.limitation(errno).into_iter().collect(),
            attribute,
            n_more: 0,
            cause: errno.into(),
        }
    }

    /// Another process has replaced the file that was to get attributes.
    pub(super) fn replaced() -> Self {
        Self {
            attribute: Attribute::Any,
            n_more: 0,
            cause: io::Error::other("what was made has been replaced"),
            limitations: Vec::new(),
        }
    }

    /// What the file system of the destination never keeps, if that explains all that could not be kept. Empty if not.
    pub(in crate::dircopy) fn limitations(&self) -> &[Limitation] {
        &self.limitations
    }

    /// Where it happened. On a file system that has all attributes, none of them is lacking.
    pub(super) fn on(mut self, destination: impl AsFd) -> Self {
        if !self.limitations.is_empty() && !file_system::is_foreign(destination) {
            self.limitations.clear();
        }
        self
    }
}

/// What can fail to be kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum Attribute {
    /// All that there are.
    #[error("any attribute")]
    Any,
    /// User and group.
    #[error("the owner")]
    Owner,
    /// Permissions.
    #[error("the mode")]
    Mode,
    /// The list of extended attributes.
    #[error("the extended attributes")]
    Xattrs,
    /// One extended attribute, or an access list.
    #[error("the extended attribute {}", .0.to_string_lossy())]
    Xattr(CString),
    /// Those of the last access and modification.
    #[error("the times")]
    Times,
}

impl Attribute {
    /// What a file system may lack, if it says this of an attribute.
    ///
    /// # Kernel notes
    ///
    /// FAT, exFAT and what is mounted with options for all owners and modes say `EPERM` even to root. Extended attributes are `EOPNOTSUPP`.
    /// Drivers in user space say `ENOSYS` for what they do not know.
    fn limitation(&self, errno: Errno) -> Option<Limitation> {
        // A user may do less than the file system can.
        let is_refused = errno == Errno::PERM && rustix::process::geteuid().is_root();
        if !is_refused && !matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS) {
            return None;
        }
        match self {
            Self::Owner => Some(Limitation::Owners),
            Self::Mode => Some(Limitation::Modes),
            Self::Xattrs | Self::Xattr(_) => Some(Limitation::Xattrs),
            Self::Any | Self::Times => None,
        }
    }
}

/// The first of the errors, which counts the others.
#[derive(Default)]
pub(super) struct First(Option<Error>);

impl First {
    pub(super) fn keep<T>(&mut self, result: Result<T, Error>) {
        if let Err(error) = result {
            self.add(error);
        }
    }

    pub(super) fn unless<T: Default>(
        &mut self,
        result: Result<T, Errno>,
        attribute: Attribute,
    ) -> T {
        result.unwrap_or_else(|cause| {
            self.add(Error::new(attribute, cause));
            T::default()
        })
    }

    pub(super) fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => {
                first.n_more += 1 + error.n_more;
                if first.limitations.is_empty() || error.limitations.is_empty() {
                    // Something else is wrong.
                    first.limitations.clear();
                } else {
                    first.limitations.extend(error.limitations);
                }
            }
            none => *none = Some(error),
        }
    }

    /// Adds what was ignored without an error.
    ///
    /// # Kernel notes
    ///
    /// FAT and exFAT ignore a mode that they cannot keep, and ntfs-3g without its option `permissions` any owner.
    pub(super) fn examine(
        &mut self,
        file: BorrowedFd<'_>,
        stat: &Stat,
        owner: Owner,
        mode: Option<Mode>,
    ) {
        let Ok(found) = rustix::fs::fstat(file) else {
            return;
        };
        let has_owner = (found.st_uid, found.st_gid) == (stat.st_uid, stat.st_gid);
        let lost_owner = owner == Owner::Kept && !has_owner;
        let lost_mode = mode.is_some_and(|mode| (found.st_mode ^ mode.as_raw_mode()) & 0o777 != 0);
        if (lost_owner || lost_mode) && file_system::is_foreign(file) {
            let lost = [(lost_owner, Attribute::Owner), (lost_mode, Attribute::Mode)];
            for (_, attribute) in lost.into_iter().filter(|(is_lost, _)| *is_lost) {
                self.add(Error::new(attribute, Errno::OPNOTSUPP));
            }
        }
    }

    pub(super) fn into_result(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), Err)
    }
}
