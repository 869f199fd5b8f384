//! Which names are of one file.

use std::collections::HashMap;

use super::containment::{Identity, identity};
use super::copier::Job;
use super::tree::Entry;

/// What an entry is among the names of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The file has no other.
    Only,
    /// The first that was met, which is copied; and how many more there were.
    First(Identity, u64),
    /// Another, which becomes a link to the first's copy.
    Further(Identity),
}

/// The files of which more names may come. One whose names have all come is forgotten.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// How many names of each have not come yet.
    left: HashMap<Identity, u64>,
}

impl Links {
    /// What is to be done about the next entry.
    pub(super) fn job(&mut self, entry: Entry) -> Job {
        let role = self.role(&entry);
        Job { entry, role }
    }

    /// The role of the next entry.
    #[allow(clippy::unnecessary_cast, reason = "not on every processor")]
    fn role(&mut self, entry: &Entry) -> Role {
        let stat = entry.stat();
        let n_names = stat.st_nlink as u64;
        if n_names < 2 {
            return Role::Only;
        }
        let file = identity(stat);
        match self.left.get_mut(&file) {
            None => {
                self.left.insert(file, n_names - 1);
                Role::First(file, n_names - 1)
            }
            Some(left) => {
                *left -= 1;
                if *left == 0 {
                    self.left.remove(&file);
                }
                Role::Further(file)
            }
        }
    }
}
