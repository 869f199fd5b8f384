//! Which names are of one file.

use std::collections::HashMap;
use std::io;

use super::containment::{Identity, identity};
use super::copier::Job;
use super::lookup::Known;
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

/// Size and time of modification.
type Version = (i64, i64, u64);

/// The files of which more names may come. One whose names have all come is forgotten.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// How many names of each have not come yet, and what it was like.
    left: HashMap<Identity, (u64, Version)>,
}

impl Links {
    /// What is to be done about the next entry.
    pub(super) fn job(&mut self, entry: Entry, known: io::Result<Known>) -> Job {
        let role = self.role(&entry);
        Job { entry, role, known }
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
        let version = (
            stat.st_size,
            stat.st_mtime as i64,
            stat.st_mtime_nsec as u64,
        );
        match self.left.get_mut(&file) {
            None => {
                self.left.insert(file, (n_names - 1, version));
                Role::First(file, n_names - 1)
            }
            // It has been written to, or is another one with the number of one that has gone.
            Some((_, known)) if *known != version => Role::Only,
            Some((left, _)) => {
                *left -= 1;
                if *left == 0 {
                    self.left.remove(&file);
                }
                Role::Further(file)
            }
        }
    }
}
