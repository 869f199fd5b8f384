//! Whether symbolic links of the destination have attributes of their own.

use std::os::fd::BorrowedFd;
use std::sync::{PoisonError, RwLock};

use super::file_system;
use super::place;

/// Whose attributes a call changes that names a symbolic link and is told not to follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changes {
    /// Those of the link, as it should be.
    Link,
    /// Those of the file that the link leads to, which may be outside of the destination.
    Target,
}

/// What has been found out about file systems of the destination, by their devices.
#[derive(Debug, Default)]
pub(super) struct Symlinks(RwLock<Vec<(u64, Changes)>>);

impl Symlinks {
    /// Finds out whose attributes change, in a directory on this device.
    ///
    /// # Kernel notes
    ///
    /// The kernel does not follow the link, but a driver in user space may: sshfs passes chown, chmod and times on by path, and the server
    /// follows it. No other kind of file system is asked.
    pub(super) fn changes(&self, directory: BorrowedFd<'_>, device: u64) -> Changes {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, changes)) = known.iter().find(|(known, _)| *known == device) {
            return *changes;
        }
        drop(known);
        let changes = if file_system::is_in_user_space(directory) && place::follows_links(directory)
        {
            Changes::Target
        } else {
            Changes::Link
        };
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.push((device, changes));
        changes
    }
}
