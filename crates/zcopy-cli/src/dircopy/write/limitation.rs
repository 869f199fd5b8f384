//! Features that the file system of the destination lacks.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// A feature that the file system of the destination lacks. A run reports each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limitation {
    /// Giving a name only if it is free.
    ExclusiveNames,
    /// Hard links that can be told from other files.
    HardLinks,
    /// Attributes of symbolic links. A change of these changes the target's.
    SymlinkAttributes,
    /// Owners, or some of them.
    Owners,
    /// Permissions, or some of them.
    Modes,
    /// Extended attributes, or some of them.
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
pub(crate) struct Limitations(Mutex<BTreeSet<Limitation>>);

impl Limitations {
    /// Adds a limitation. Returns whether it is new.
    pub(crate) fn add(&self, limitation: Limitation) -> bool {
        let mut met = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        met.insert(limitation)
    }
}
