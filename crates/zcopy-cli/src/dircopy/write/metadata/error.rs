//! Attributes that could not be kept.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Mode, Stat};
use rustix::io::Errno;

use super::Owner;
use crate::dircopy::write::file_system;
use crate::dircopy::write::limitation::Limitation;

/// The first attribute that could not be kept, and the number of the others.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep {attribute}{}", and_more(*.n_more))]
pub(crate) struct Error {
    attribute: Attribute,
    n_more: usize,
    #[source]
    cause: io::Error,
    /// The features that the file system lacks, if these explain every lost attribute; otherwise
    /// empty.
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

    /// The features that the file system of the destination lacks, if these explain every lost
    /// attribute; otherwise empty.
    pub(crate) fn limitations(&self) -> &[Limitation] {
        &self.limitations
    }

    /// Drops the limitations if the file system of the destination has all attributes.
    pub(super) fn on(mut self, destination: impl AsFd) -> Self {
        if !self.limitations.is_empty() && !file_system::is_foreign(destination) {
            self.limitations.clear();
        }
        self
    }
}

/// An attribute that can get lost.
#[derive(Debug, thiserror::Error)]
pub(super) enum Attribute {
    /// All attributes.
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
    /// The times of the last access and modification.
    #[error("the times")]
    Times,
}

impl Attribute {
    /// The feature that a file system may lack if it refuses this attribute with `errno`.
    ///
    /// # Kernel notes
    ///
    /// FAT, exFAT and file systems that are mounted with one owner and mode for all files answer
    /// `EPERM` even to root. A file system without extended attributes answers `EOPNOTSUPP`.
    /// Drivers in user space answer `ENOSYS` to calls that they lack.
    fn limitation(&self, errno: Errno) -> Option<Limitation> {
        // For other users `EPERM` says nothing about the file system.
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

/// Collects errors into one, which names the first attribute and counts the others.
#[derive(Default)]
pub(super) struct Errors(Option<Error>);

impl Errors {
    pub(super) fn record<T>(&mut self, result: Result<T, Error>) {
        if let Err(error) = result {
            self.add(error);
        }
    }

    /// Returns the value, or records the error of `attribute`.
    pub(super) fn ok_or_record<T: Default>(
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
                    // One of the errors has another cause.
                    first.limitations.clear();
                } else {
                    first.limitations.extend(error.limitations);
                }
            }
            none => *none = Some(error),
        }
    }

    /// Reads owner and mode back, and adds an error for each that a foreign file system has
    /// silently ignored.
    ///
    /// # Kernel notes
    ///
    /// FAT and exFAT ignore a mode that they cannot keep. ntfs-3g without its option `permissions`
    /// ignores owners.
    pub(super) fn add_ignored(
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
