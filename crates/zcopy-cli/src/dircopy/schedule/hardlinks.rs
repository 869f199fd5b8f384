//! Finds the names of files that have several (hard links).

use std::collections::HashMap;
use std::io;

use super::lookup::PriorRecord;
use super::{Job, Role};
use crate::dircopy::stat::{Identity, identity};
use crate::dircopy::walk::Entry;

/// The size and the modification time of a file.
type Version = (i64, i64, u64);

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
        let version = (
            stat.st_size,
            stat.st_mtime as i64,
            stat.st_mtime_nsec as u64,
        );
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
            Some(expected) if expected.version != version => Role::Only,
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
