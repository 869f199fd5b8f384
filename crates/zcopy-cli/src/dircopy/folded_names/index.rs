//! Hashes of the recorded paths.

use std::io;

use crate::dircopy::manifest::read::archive::Archive;
use crate::dircopy::walk::spelling::key;

/// Hashes of the paths of all recorded files, of their directories, and of the manifests. Each path
/// takes 16 bytes.
#[derive(Debug, Default)]
pub(super) struct Index {
    paths: Vec<PathHashes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PathHashes {
    /// The hash of the folded path.
    key: u64,
    /// The hash of the path itself.
    exact: u64,
}

impl Index {
    /// # Errors
    ///
    /// A manifest cannot be read.
    pub(super) fn of(archive: &Archive) -> io::Result<Self> {
        let mut index = Self::default();
        for name in archive.file_names() {
            index.add(name.as_bytes());
        }
        let mut records = archive.records()?;
        let mut last = Vec::new();
        while let Some(record) = records.next()? {
            if record.may_have_file() {
                index.add_below(&last, &record.path);
                last = record.path;
            }
        }
        index.finish();
        Ok(index)
    }

    /// Adds a file, and its directories unless those are on the path `last` too.
    fn add_below(&mut self, last: &[u8], path: &[u8]) {
        for slash in memchr::memchr_iter(b'/', path) {
            if last.get(..=slash) != Some(&path[..=slash]) {
                self.add(&path[..slash]);
            }
        }
        self.add(path);
    }

    fn add(&mut self, path: &[u8]) {
        self.paths.push(PathHashes::of(path));
    }

    fn finish(&mut self) {
        self.paths.sort_unstable();
        self.paths.dedup();
        self.paths.shrink_to_fit();
    }

    /// Whether this path is recorded.
    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.paths.binary_search(&PathHashes::of(path)).is_ok()
    }

    /// Whether another path is recorded that folds to the same.
    pub(super) fn has_other(&self, path: &[u8]) -> bool {
        let PathHashes { key, exact } = PathHashes::of(path);
        let begin = self.paths.partition_point(|path| path.key < key);
        let alike = self.paths[begin..]
            .iter()
            .take_while(|path| path.key == key);
        alike.into_iter().any(|path| path.exact != exact)
    }
}

impl PathHashes {
    fn of(path: &[u8]) -> Self {
        Self {
            key: key::hash(path),
            exact: key::hash_of(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_their_directories_are_found_by_other_spellings() {
        let mut index = Index::default();
        let paths = ["Dir/a", "Dir/b", "Dir/sub/c", "README"];
        let mut last = "";
        for path in paths {
            index.add_below(last.as_bytes(), path.as_bytes());
            last = path;
        }
        index.finish();
        assert_eq!(index.paths.len(), 6);
        for path in ["Dir", "Dir/sub", "Dir/sub/c", "README"] {
            assert!(index.has(path.as_bytes()) && !index.has_other(path.as_bytes()));
        }
        for path in ["dir", "Dir/SUB", "dir/sub/c", "readme"] {
            assert!(!index.has(path.as_bytes()) && index.has_other(path.as_bytes()));
        }
        assert!(!index.has(b"other") && !index.has_other(b"other"));
    }
}
