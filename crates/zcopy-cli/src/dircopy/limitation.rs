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
