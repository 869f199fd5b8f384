//! Names in a directory that may be damage maps.

use std::collections::BTreeSet;
use std::ffi::CStr;

use super::spelling::key;
use crate::dircopy::damage_map::mapped_name;

/// The names that may be damage maps, folded as by a file system that ignores case.
#[derive(Debug, Default)]
pub(super) struct MapNames {
    folded: BTreeSet<Vec<u8>>,
}

impl MapNames {
    /// Adds a name if it may be that of a damage map.
    pub(super) fn add(&mut self, name: &CStr) {
        let bytes = name.to_bytes();
        // Most names end in other bytes, and need not be folded.
        if matches!(bytes.last(), Some(b'd' | b'D' | b'.' | b' ')) {
            let folded = key::fold(bytes);
            if mapped_name(&folded).is_some() {
                self.folded.insert(folded);
            }
        }
    }

    /// Whether one of the names may be equal to this one on some file system.
    pub(super) fn may_have(&self, name: &CStr) -> bool {
        self.folded.contains(&key::fold(name.to_bytes()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.folded.is_empty()
    }
}
