//! What the file system of the destination cannot do, so that a run promises less there.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Something that the file system of the destination cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Limitation {
    /// A name cannot be given only if it is free.
    ExclusiveNames,
    /// A file cannot have another name, or such a name cannot be told from the name of another file.
    HardLinks,
    /// Symbolic links have no attributes: a change would be one of what they lead to.
    SymlinkAttributes,
    /// Files have no owners, or not those that they are given.
    Owners,
    /// Files have no permissions, or not those that they are given.
    Modes,
    /// Files have no extended attributes, or not all.
    Xattrs,
}

impl fmt::Display for Limitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExclusiveNames => {
                "the file system has neither RENAME_NOREPLACE nor hard links: a file that another process creates \
                 while its name is given to a copy may be replaced"
            }
            Self::HardLinks => {
                "not all hard links could be made, or be told from other files: such names are copied as files of their own"
            }
            Self::SymlinkAttributes => {
                "the file system passes attributes of symbolic links on to the files that these lead to: \
                 owners and times of symbolic links are not kept"
            }
            Self::Owners => "the file system does not keep all owners",
            Self::Modes => "the file system does not keep all modes",
            Self::Xattrs => "the file system does not keep all extended attributes",
        })
    }
}

/// The limitations that a run has met.
#[derive(Debug, Default)]
pub(super) struct Limitations(Mutex<BTreeSet<Limitation>>);

impl Limitations {
    /// Adds one. Returns whether it is new.
    pub(super) fn add(&self, limitation: Limitation) -> bool {
        let mut met = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        met.insert(limitation)
    }
}
