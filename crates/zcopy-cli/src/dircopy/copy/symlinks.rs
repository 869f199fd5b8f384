//! Finds out whether symbolic links of the destination have attributes of their own.

use std::os::fd::BorrowedFd;
use std::sync::{PoisonError, RwLock};

use crate::dircopy::write::atomic_file;
use crate::dircopy::write::file_system;

/// The file that a call with `AT_SYMLINK_NOFOLLOW` changes if its name is a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NofollowTarget {
    /// The link, as it should.
    Link,
    /// The target of the link, which may be outside of the destination.
    Target,
}

/// The results for the file systems of the destination, by device.
#[derive(Debug, Default)]
pub(crate) struct Symlinks(RwLock<Vec<(u64, NofollowTarget)>>);

impl Symlinks {
    /// Finds out what changes in a directory on this device.
    ///
    /// # Kernel notes
    ///
    /// The kernel does not follow the link, but a FUSE driver may: sshfs sends chown, chmod and
    /// times with the path, and the server follows the link. Only FUSE file systems are tried.
    pub(crate) fn nofollow_target(&self, directory: BorrowedFd<'_>, device: u64) -> NofollowTarget {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, changes)) = known.iter().find(|(known, _)| *known == device) {
            return *changes;
        }
        drop(known);
        let changes =
            if file_system::is_in_user_space(directory) && atomic_file::follows_links(directory) {
                NofollowTarget::Target
            } else {
                NofollowTarget::Link
            };
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.push((device, changes));
        changes
    }
}
