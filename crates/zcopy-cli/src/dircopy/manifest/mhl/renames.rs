//! Which file a path of an earlier generation names now.

use std::collections::{HashMap, HashSet};

/// The files that generations have found under other names than earlier ones.
///
/// The records of such a file go on under its new name. Whatever has the old name afterwards is
/// another file.
#[derive(Debug, Default)]
pub(super) struct Renames {
    /// For each old name, the generations that found its file renamed, and the new names.
    moved: HashMap<Vec<u8>, Vec<(usize, Vec<u8>)>>,
    /// For each new name, the generations that found another file renamed to it.
    taken: HashMap<Vec<u8>, Vec<usize>>,
}

impl Renames {
    /// Adds what the generation with this index says. Generations come in order.
    pub(super) fn add(&mut self, generation: usize, previous: Vec<u8>, path: Vec<u8>) {
        self.taken.entry(path.clone()).or_default().push(generation);
        let moved = self.moved.entry(previous).or_default();
        moved.push((generation, path));
    }

    /// The path that a file has now which this generation lists. `None` if another file has been
    /// renamed to its path.
    pub(super) fn current(&self, mut path: Vec<u8>, mut generation: usize) -> Option<Vec<u8>> {
        loop {
            let moved = self.moved.get(&path).into_iter().flatten();
            let moved = moved.filter(|(later, _)| *later > generation).min();
            let taken = self.taken.get(&path).into_iter().flatten();
            let taken = taken.filter(|later| **later > generation).min();
            match (moved, taken) {
                (Some((moved, new)), taken) if taken.is_none_or(|taken| moved <= taken) => {
                    (path, generation) = (new.clone(), *moved);
                }
                (_, Some(_)) => return None,
                (_, None) => return Some(path),
            }
        }
    }

    /// Whether a file of this generation has the old name of one that was renamed.
    fn is_reused(&self, path: &[u8], generation: usize) -> bool {
        let moved = self.moved.get(path).into_iter().flatten();
        let Some(moved) = moved
            .map(|(at, _)| *at)
            .filter(|at| *at <= generation)
            .max()
        else {
            return false;
        };
        let taken = self.taken.get(path).into_iter().flatten();
        !taken
            .into_iter()
            .any(|taken| (moved..=generation).contains(taken))
    }
}

/// The files that have the old names of others, and that a generation has been read of.
#[derive(Debug, Default)]
pub(super) struct Reused(HashSet<Vec<u8>>);

impl Reused {
    /// Whether this is the first generation that lists the file, and the file has the old name of
    /// another one. What differs from the records of the other file is no failure.
    pub(super) fn is_first(&mut self, renames: &Renames, path: &[u8], generation: usize) -> bool {
        renames.is_reused(path, generation) && self.0.insert(path.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renames(all: &[(usize, &str, &str)]) -> Renames {
        let mut renames = Renames::default();
        for (generation, previous, path) in all {
            renames.add(
                *generation,
                previous.as_bytes().to_vec(),
                path.as_bytes().to_vec(),
            );
        }
        renames
    }

    fn current(renames: &Renames, path: &str, generation: usize) -> Option<String> {
        let path = renames.current(path.as_bytes().to_vec(), generation);
        path.map(|path| String::from_utf8(path).unwrap())
    }

    #[test]
    fn records_follow_their_file_and_leave_its_old_name() {
        let renames = renames(&[(1, "a", "b"), (3, "b", "c")]);
        assert_eq!(current(&renames, "a", 0).unwrap(), "c");
        assert_eq!(current(&renames, "a", 1).unwrap(), "a");
        assert_eq!(current(&renames, "b", 0), None, "a was renamed to it");
        assert_eq!(current(&renames, "b", 2).unwrap(), "c");
        assert_eq!(current(&renames, "b", 3).unwrap(), "b");
        assert_eq!(current(&renames, "other", 0).unwrap(), "other");
    }

    #[test]
    fn two_files_may_exchange_their_names() {
        let renames = renames(&[(1, "a", "b"), (1, "b", "a")]);
        assert_eq!(current(&renames, "a", 0).unwrap(), "b");
        assert_eq!(current(&renames, "b", 0).unwrap(), "a");
        assert!(!Reused::default().is_first(&renames, b"a", 1));
    }

    #[test]
    fn an_old_name_is_reused_once() {
        let renames = renames(&[(1, "a", "b")]);
        let mut reused = Reused::default();
        assert!(!reused.is_first(&renames, b"a", 0));
        assert!(!reused.is_first(&renames, b"b", 1));
        assert!(reused.is_first(&renames, b"a", 2));
        assert!(!reused.is_first(&renames, b"a", 3));
    }
}
