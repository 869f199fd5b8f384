//! Names in a directory that maps of damaged files may have.

use std::collections::BTreeSet;
use std::ffi::CStr;

use crate::dircopy::damage_map::mapped_name;
use crate::dircopy::spelling::key;

/// Those names, as a file system compares them that ignores case.
#[derive(Debug, Default)]
pub(super) struct MapNames {
    folded: BTreeSet<Vec<u8>>,
}

impl MapNames {
    /// Adds a name, if maps have such names.
    pub(super) fn add(&mut self, name: &CStr) {
        let bytes = name.to_bytes();
        // Most names end otherwise, and need not be folded.
        if matches!(bytes.last(), Some(b'd' | b'D' | b'.' | b' ')) {
            let folded = key::fold(bytes);
            if mapped_name(&folded).is_some() {
                self.folded.insert(folded);
            }
        }
    }

    /// Whether one of these names may be this one to a file system.
    pub(super) fn may_have(&self, name: &CStr) -> bool {
        self.folded.contains(&key::fold(name.to_bytes()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.folded.is_empty()
    }
}
