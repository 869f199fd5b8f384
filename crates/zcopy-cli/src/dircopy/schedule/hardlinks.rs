//! Finds the names of files that have several (hard links).

use std::collections::HashMap;
use std::io;

use super::lookup::PriorRecord;
use super::{Job, Role};
use crate::dircopy::stat::{Birth, Identity, identity};
use crate::dircopy::walk::Entry;
use crate::dircopy::write::metadata::Named;

/// Facts that differ between a file and a later one with the same inode number.
#[derive(Debug)]
struct Version {
    size: i64,
    modified: (i64, u64),
    /// `None` if the file system does not tell it.
    birth: Option<Birth>,
}

impl Version {
    /// A birth that is not known tells nothing.
    fn differs_from(&self, other: &Self) -> bool {
        let births = self.birth.zip(other.birth);
        self.size != other.size
            || self.modified != other.modified
            || births.is_some_and(|(birth, other)| birth != other)
    }
}

/// A file of which more names may come.
#[derive(Debug)]
struct Expected {
    /// The number of names that have not come yet.
    n_names: u64,
    version: Version,
}

/// The files of which more names may come. A file is forgotten after its last name.
#[derive(Debug, Default)]
pub(crate) struct HardLinks {
    expected: HashMap<Identity, Expected>,
}

impl HardLinks {
    /// Makes the job of the next entry.
    pub(crate) fn job(&mut self, entry: Entry, prior: io::Result<PriorRecord>) -> Job {
        let role = self.role(&entry);
        Job { entry, role, prior }
    }

    #[allow(clippy::unnecessary_cast, reason = "not on every processor")]
    fn role(&mut self, entry: &Entry) -> Role {
        let stat = entry.stat();
        let n_names = stat.st_nlink as u64;
        if n_names < 2 {
            return Role::Only;
        }
        let file = identity(stat);
        let Named { directory, name } = entry.source();
        let version = Version {
            size: stat.st_size,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            birth: Birth::of_name(directory, name),
        };
        match self.expected.get_mut(&file) {
            None => {
                let n_names = n_names - 1;
                self.expected.insert(file, Expected { n_names, version });
                Role::First {
                    file,
                    n_more: n_names,
                }
            }
            // The file has changed, or a new file has got the inode number of a deleted one.
            Some(expected) if expected.version.differs_from(&version) => Role::Only,
            Some(expected) => {
                expected.n_names -= 1;
                if expected.n_names == 0 {
                    self.expected.remove(&file);
                }
                Role::Additional { file }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::dircopy::test_support::scratch;
    use crate::dircopy::walk::{Options, Root};
    use crate::skip::skip;

    /// Makes a file of four bytes with another name outside of the tree. All have the same time.
    fn make(tree: &Path, outside: &Path) -> u64 {
        let file = tree.join("file");
        fs::write(&file, "four").unwrap();
        fs::hard_link(&file, outside).unwrap();
        let file = File::options().write(true).open(file).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        file.set_modified(modified).unwrap();
        file.metadata().unwrap().ino()
    }

    /// The role of the only file of a tree.
    fn role(links: &mut HardLinks, tree: &Path) -> Role {
        let root = Root::open(tree, &tree.with_extension("copy")).unwrap();
        let mut roles = Vec::new();
        for entry in root.walk(Options::new(), drop) {
            roles.push(links.role(&entry));
            entry.done().unwrap();
        }
        root.done().unwrap();
        assert_eq!(roles.len(), 1);
        roles.remove(0)
    }

    #[test]
    fn a_new_file_with_the_number_of_a_removed_one_is_no_other_name_of_it() {
        // Other tests may have got the number.
        if !(0..20).any(|_| is_told_apart_if_the_number_is_used_again()) {
            skip("this file system uses no inode number again");
        }
    }

    /// Returns false if no new file has got the number.
    fn is_told_apart_if_the_number_is_used_again() -> bool {
        let scratch = scratch();
        let [first, later] = ["first", "later"].map(|name| scratch.path().join(name));
        for tree in [&first, &later] {
            fs::create_dir(tree).unwrap();
        }
        let outside = |nth: u32| scratch.path().join(nth.to_string());
        let number = make(&first, &outside(0));
        let mut links = HardLinks::default();
        assert!(matches!(role(&mut links, &first), Role::First { .. }));
        fs::remove_file(first.join("file")).unwrap();
        fs::remove_file(outside(0)).unwrap();
        // Before Linux 6.13 the clock of births ticks every few milliseconds.
        std::thread::sleep(Duration::from_millis(20));
        let was_used_again = (1..100).any(|nth| {
            // The file before this one keeps its number by its other name.
            let _ = fs::remove_file(later.join("file"));
            make(&later, &outside(nth)) == number
        });
        if was_used_again {
            assert_eq!(role(&mut links, &later), Role::Only);
        }
        was_used_again
    }
}
