//! The recorded paths, for reports.

use std::io;

use crate::dircopy::manifest::read::archive::Archive;
use crate::dircopy::manifest::read::merge::Records;
use crate::dircopy::walk::spelling::key;

/// The most memory that the kept paths may take, in bytes.
const MAX_KEPT_BYTES: usize = 8 << 20;

/// Finds recorded paths that the destination may not tell from others.
///
/// Entries come in about the order of the records. A part of the records is kept, and the next part
/// is read when a path is not in it, so that reports of many paths read the records about once.
#[derive(Debug)]
pub(super) struct RecordedPaths {
    /// The records after the kept part. `None` at their end.
    records: Option<Records>,
    /// Sorted.
    kept: Vec<KeptPath>,
    max_kept_bytes: usize,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KeptPath {
    /// The hash of the folded path.
    key: u64,
    path: Box<[u8]>,
}

impl Default for RecordedPaths {
    fn default() -> Self {
        Self {
            records: None,
            kept: Vec::new(),
            max_kept_bytes: MAX_KEPT_BYTES,
        }
    }
}

impl RecordedPaths {
    /// Finds another recorded path that folds to the same as this one.
    ///
    /// # Errors
    ///
    /// A manifest cannot be read.
    pub(super) fn other(&mut self, archive: &Archive, path: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut n_ends = 0;
        loop {
            if let Some(other) = self.kept_other(path) {
                return Ok(Some(other.to_vec()));
            }
            // The search begins in the middle of the records: all have been read after the second
            // end.
            if n_ends == 2 {
                return Ok(None);
            }
            self.refill(archive)?;
            n_ends += usize::from(self.records.is_none());
        }
    }

    fn kept_other(&self, path: &[u8]) -> Option<&[u8]> {
        let key = key::hash(path);
        let begin = self.kept.partition_point(|kept| kept.key < key);
        let alike = self.kept[begin..].iter().take_while(|kept| kept.key == key);
        let mut paths = alike.map(|kept| &*kept.path);
        paths.find(|other| *other != path)
    }

    /// Keeps the next part of the records. The first part follows the last one.
    fn refill(&mut self, archive: &Archive) -> io::Result<()> {
        self.kept.clear();
        let mut records = match self.records.take() {
            Some(records) => records,
            None => archive.records()?,
        };
        let mut n_bytes = 0;
        let mut last = Vec::new();
        while n_bytes < self.max_kept_bytes {
            let Some(record) = records.next()? else {
                self.kept.sort_unstable();
                return Ok(());
            };
            let path = record.path;
            let slashes = memchr::memchr_iter(b'/', &path);
            let is_new = |slash: &usize| last.get(..=*slash) != Some(&path[..=*slash]);
            for end in slashes.filter(is_new).chain([path.len()]) {
                self.kept.push(KeptPath {
                    key: key::hash(&path[..end]),
                    path: path[..end].into(),
                });
                n_bytes += size_of::<KeptPath>() + end;
            }
            last = path;
        }
        self.kept.sort_unstable();
        self.records = Some(records);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs;
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::dircopy::manifest::read::archive::Verify;
    use crate::dircopy::test_support::{open, scratch};

    #[test]
    fn paths_are_found_in_any_order_however_few_are_kept() {
        let scratch = scratch();
        let mut lines = String::new();
        for path in ["A", "DIR/SUB/A", "DIR/SUB/B", "Z", "z"] {
            writeln!(lines, "{:064}  {path}", 0).unwrap();
        }
        let name = "shasum.2026-11-21.18.14.38.txt";
        fs::write(scratch.path().join(name), lines).unwrap();
        let archive = Archive::open(open(scratch.path()).as_fd(), Verify::Needed, false).unwrap();
        for max_kept_bytes in [1, 100, 1000] {
            let mut recorded = RecordedPaths {
                max_kept_bytes,
                ..RecordedPaths::default()
            };
            let mut other = |path: &str| {
                let other = recorded.other(&archive, path.as_bytes()).unwrap();
                other.map(|other| String::from_utf8(other).unwrap())
            };
            for _ in 0..2 {
                assert_eq!(other("z").as_deref(), Some("Z"));
                assert_eq!(other("Z").as_deref(), Some("z"));
                assert_eq!(other("a").as_deref(), Some("A"));
                assert_eq!(other("A"), None);
                assert_eq!(other("dir/sub/b").as_deref(), Some("DIR/SUB/B"));
                assert_eq!(other("DIR/sub").as_deref(), Some("DIR/SUB"));
                assert_eq!(other("dir").as_deref(), Some("DIR"));
                assert_eq!(other("none"), None);
            }
        }
    }
}
