//! The paths by which directories list files that other spellings lead to.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use super::names::FoldableNames;
use super::{is_same, stat};

/// Finds the paths by which directories list files.
///
/// Paths that ascend have the paths beneath each directory in a row. The names in the directories
/// on the way to the last path are kept, so that each directory is listed once or twice.
#[derive(Debug, Default)]
pub(crate) struct ListedPaths {
    /// The root and the directories on the way to the last path.
    levels: Vec<Level>,
}

/// A directory on the way to the last path.
#[derive(Debug)]
struct Level {
    /// The name that leads to it. Empty for the root.
    name: CString,
    names: FoldableNames,
}

impl ListedPaths {
    /// The path by which the file of a path beneath `root` is listed. `None` if there is no such
    /// file, or a directory cannot be read. `root` must be the same in all calls.
    pub(crate) fn find(&mut self, root: BorrowedFd<'_>, path: &[u8]) -> Option<Vec<u8>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut listed = Vec::new();
        let mut above: Option<OwnedFd> = None;
        let mut leading = CString::default();
        for (depth, name) in path.split(|byte| *byte == b'/').enumerate() {
            let name = CString::new(name).ok()?;
            if depth > 0 {
                let parent = above.as_ref().map_or(root, OwnedFd::as_fd);
                above = Some(rustix::fs::openat(parent, &*leading, flags, Mode::empty()).ok()?);
                listed.push(b'/');
            }
            let directory = above.as_ref().map_or(root, OwnedFd::as_fd);
            let level = self.level(depth, leading, directory)?;
            listed.extend_from_slice(level.find(directory, &name)?.to_bytes());
            leading = name;
        }
        Some(listed)
    }

    /// The level at this depth. If it was another directory's, it and those beneath are dropped.
    fn level(&mut self, depth: usize, name: CString, directory: BorrowedFd<'_>) -> Option<&Level> {
        if self
            .levels
            .get(depth)
            .is_none_or(|level| level.name != name)
        {
            self.levels.truncate(depth);
            let names = FoldableNames::list(directory).ok()?;
            self.levels.push(Level { name, names });
        }
        self.levels.get(depth)
    }
}

impl Level {
    /// The listed name of the file that a name leads to.
    fn find(&self, directory: BorrowedFd<'_>, name: &CStr) -> Option<CString> {
        stat(directory, name)?;
        let listed = self.names.spellings(name);
        if listed.has(name) {
            return Some(name.to_owned());
        }
        let is_it = |other: &&CString| is_same(directory, name, other, &listed);
        listed.names.iter().find(is_it).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::dircopy::test_support::{open, scratch};

    #[test]
    fn where_names_are_told_apart_a_file_is_listed_by_its_own_path_alone() {
        let scratch = scratch();
        fs::create_dir(scratch.path().join("Dir")).unwrap();
        for name in ["Dir/README", "Dir/readme", "other"] {
            fs::write(scratch.path().join(name), "").unwrap();
        }
        let root = open(scratch.path());
        let mut paths = ListedPaths::default();
        for path in [&b"Dir/README"[..], b"Dir/readme", b"other"] {
            assert_eq!(paths.find(root.as_fd(), path).as_deref(), Some(path));
        }
        for path in [&b"Dir/ReadMe"[..], b"Dir/none", b"dir/README", b"OTHER"] {
            assert_eq!(paths.find(root.as_fd(), path), None);
        }
    }
}
