//! The entries of the destination that the tool has made beside the copies.

use std::os::fd::BorrowedFd;

use rustix::fs::FileType;

use super::folder;
use crate::dircopy::manifest::bag;
use crate::dircopy::manifest::journal::is_journal;
use crate::dircopy::manifest::kind::{ManifestKind, is_list};
use crate::dircopy::manifest::mhl;
use crate::dircopy::settings::Settings;
use crate::dircopy::walk::scan::Found;

/// The entries of the root that the tool has made beside the copies. They stay, of whichever kind
/// the manifest of this run is.
#[derive(Clone, Copy, Debug)]
pub(super) enum OwnNames {
    /// The directory is the payload of a bag. The manifests in it are copies.
    Payload,
    /// The root of an archive.
    Archive,
    /// The root of an archive that is a bag, too.
    Bag,
}

impl OwnNames {
    pub(super) fn of(settings: &Settings, root: BorrowedFd<'_>) -> Self {
        match settings.manifest {
            ManifestKind::Bag => Self::Payload,
            ManifestKind::Sums | ManifestKind::Mhl if bag::is_in(root) => Self::Bag,
            ManifestKind::Sums | ManifestKind::Mhl => Self::Archive,
        }
    }

    /// Whether an entry of the root is one of them.
    pub(super) fn has(self, found: &Found<'_>) -> bool {
        let name = found.name.to_bytes();
        let is_directory = found.kind == FileType::Directory;
        if is_journal(name) || is_directory && folder::is_folder(name) {
            return true;
        }
        let is_manifest = || {
            if is_directory {
                name == mhl::DIRECTORY.as_bytes()
            } else {
                is_list(name)
            }
        };
        match self {
            Self::Payload => false,
            Self::Archive => is_manifest(),
            Self::Bag => is_manifest() || bag::has_name(name, is_directory),
        }
    }
}
