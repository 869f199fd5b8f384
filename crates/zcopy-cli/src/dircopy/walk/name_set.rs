//! A set of the names in a directory.

use std::ffi::CStr;
use std::hash::{BuildHasher as _, RandomState};

/// A set of names, which takes eight bytes for each.
#[derive(Debug, Default)]
pub(crate) struct NameSet {
    /// Sorted.
    hashes: Vec<u64>,
    key: RandomState,
}

impl NameSet {
    /// Adds a name. Call [`finish`](Self::finish) after the last one, and [`has`](Self::has) only
    /// then.
    pub(crate) fn add(&mut self, name: &CStr) {
        self.hashes.push(self.key.hash_one(name));
    }

    /// Sorts the names.
    pub(crate) fn finish(&mut self) {
        self.hashes.sort_unstable();
        self.hashes.shrink_to_fit();
    }

    /// Whether the set has a name.
    pub(crate) fn has(&self, name: &CStr) -> bool {
        self.hashes.binary_search(&self.key.hash_one(name)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_they_are() {
        let mut listed = NameSet::default();
        let names = [c"b", c"README", c"a", c""];
        for name in names {
            listed.add(name);
        }
        listed.finish();
        assert!(names.iter().all(|name| listed.has(name)));
        assert!(!listed.has(c"readme") && !listed.has(c"B"));
    }
}
