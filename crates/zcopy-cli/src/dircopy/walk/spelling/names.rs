//! All names in a directory, by folded name.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::{Spellings, each_name, key};

/// The names in a directory, which are found by any spelling. A name takes its length and 17 bytes.
#[derive(Debug)]
pub(crate) struct FoldableNames {
    /// All names, each with a zero byte at its end.
    bytes: Vec<u8>,
    /// Sorted.
    index: Vec<Name>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    /// The hash of the folded name.
    key: u64,
    /// The index of the name in `bytes`.
    begin: usize,
}

impl FoldableNames {
    pub(crate) fn list(directory: BorrowedFd<'_>) -> Result<Self, Errno> {
        let (mut bytes, mut index) = (Vec::new(), Vec::new());
        each_name(directory, |name, _| {
            index.push(Name {
                key: key::hash(name.to_bytes()),
                begin: bytes.len(),
            });
            bytes.extend_from_slice(name.to_bytes_with_nul());
        })?;
        index.sort_unstable();
        Ok(Self { bytes, index })
    }

    /// The names that fold to the same as this one.
    pub(crate) fn spellings(&self, name: &CStr) -> Spellings {
        let key = key::hash(name.to_bytes());
        let begin = self.index.partition_point(|name| name.key < key);
        let alike = self.index[begin..]
            .iter()
            .take_while(|name| name.key == key);
        let name_at = |name: &Name| CStr::from_bytes_until_nul(&self.bytes[name.begin..]).ok();
        Spellings {
            names: alike.filter_map(name_at).map(CStr::to_owned).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::dircopy::test_support::{open, scratch};

    #[test]
    fn names_are_found_by_any_spelling() {
        let scratch = scratch();
        for name in ["README", "ReadMe", "other"] {
            fs::write(scratch.path().join(name), "").unwrap();
        }
        let names = FoldableNames::list(open(scratch.path()).as_fd()).unwrap();
        let mut found = names.spellings(c"readme").names;
        found.sort_unstable();
        assert_eq!(found, [c"README".to_owned(), c"ReadMe".to_owned()]);
        assert_eq!(names.spellings(c"OTHER").names, [c"other".to_owned()]);
        assert_eq!(names.spellings(c"none").names.len(), 0);
    }
}
