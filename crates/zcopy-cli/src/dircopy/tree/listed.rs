//! The names that stood in a directory of the destination before anything was copied there.

use std::ffi::{CStr, CString};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The names in a directory of the destination, as the kernel listed them: eight bytes for each.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// Sorted.
    hashes: Vec<u64>,
    key: RandomState,
}

impl Listed {
    /// Another name. All are added before any is looked for.
    pub(super) fn add(&mut self, name: &CStr) {
        self.hashes.push(self.key.hash_one(name));
    }

    /// All have been added.
    pub(super) fn finish(&mut self) {
        self.hashes.sort_unstable();
        self.hashes.shrink_to_fit();
    }

    /// Whether a name is one of them.
    pub(super) fn has(&self, name: &CStr) -> bool {
        self.hashes.binary_search(&self.key.hash_one(name)).is_ok()
    }
}

/// Names of the source that the destination may not tell apart, and their keys, sorted. They are
/// looked for when they are needed.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    found: Mutex<Option<Arc<[RivalName]>>>,
}

/// A name of the source that the destination may not tell from others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::dircopy) struct RivalName {
    /// Equal for names that may be one.
    pub(in crate::dircopy) key: u64,
    pub(in crate::dircopy) name: CString,
}

impl Rivals {
    pub(super) fn get(
        &self,
        find: impl FnOnce() -> io::Result<Vec<RivalName>>,
    ) -> io::Result<Arc<[RivalName]>> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let rivals = match &*found {
            Some(rivals) => Arc::clone(rivals),
            None => find()?.into(),
        };
        Ok(Arc::clone(found.insert(rivals)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_they_are() {
        let mut listed = Listed::default();
        let names = [c"b", c"README", c"a", c""];
        for name in names {
            listed.add(name);
        }
        listed.finish();
        assert!(names.iter().all(|name| listed.has(name)));
        assert!(!listed.has(c"readme") && !listed.has(c"B"));
    }
}
