//! The names in one directory, in order.
//!
//! - `run`: names in memory.
//! - `spill`: sorted names in a temporary file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::FileType;

use super::listing;
use run::Run;
pub(super) use spill::Spill;
use spill::StoredRun;

mod run;
mod spill;

/// The most memory that the names of a directory take, in bytes. Sorted runs of more names are in a
/// temporary file.
const MOST_MEMORY: usize = 8 << 20;

/// The names in a directory, in the order of the paths beneath it: a directory is sorted as if `/`
/// were part of its name.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The names, unless they are too many for one run.
    run: Run,
    merge: Option<Merge>,
}

/// Collects the names of a directory.
#[derive(Debug)]
pub(super) struct Collector<'a> {
    /// The names after the last run.
    run: Run,
    runs: Vec<SortedRun>,
    spill: &'a mut Spill,
    most_memory: usize,
}

/// Some of the names, sorted.
#[derive(Debug)]
enum SortedRun {
    Stored(StoredRun),
    /// The temporary file could not be written.
    InMemory(Run),
}

impl SortedRun {
    fn next_key(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::Stored(run) => run.next_key(),
            Self::InMemory(run) => Ok(run.next_key().map(<[u8]>::to_vec)),
        }
    }
}

/// Merges sorted runs.
#[derive(Debug)]
struct Merge {
    runs: Vec<SortedRun>,
    /// The next key of each run, with the index of the run.
    heads: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    last: Vec<u8>,
}

impl Names {
    /// Reads a directory, and calls `is_directory` for each name. Returns all names that were read,
    /// and the error after them, if any.
    pub(super) fn read(
        directory: BorrowedFd<'_>,
        spill: &mut Spill,
        mut is_directory: impl FnMut(&CStr, FileType) -> bool,
    ) -> (Self, io::Result<()>) {
        let mut collector = Collector::new(spill);
        let read = listing::each(directory, |name, kind| {
            collector.add(name, is_directory(name, kind));
        });
        match collector.finish() {
            Ok(names) => (names, read.map_err(io::Error::from)),
            Err(error) => (Self::default(), Err(error)),
        }
    }

    /// The next name.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be read.
    pub(super) fn next(&mut self) -> io::Result<Option<CString>> {
        match &mut self.merge {
            None => Ok(self.run.next_key().map(name)),
            Some(merge) => {
                let key = merge.next_key().map_err(|error| cannot_read_back(&error))?;
                Ok(key.as_deref().map(name))
            }
        }
    }

    /// The memory that the names take.
    #[cfg(test)]
    pub(super) fn reserved(&self) -> usize {
        self.run.reserved()
    }
}

impl<'a> Collector<'a> {
    pub(super) fn new(spill: &'a mut Spill) -> Self {
        Self::with_memory(spill, MOST_MEMORY)
    }

    fn with_memory(spill: &'a mut Spill, most_memory: usize) -> Self {
        Self {
            run: Run::default(),
            runs: Vec::new(),
            spill,
            most_memory,
        }
    }

    pub(super) fn add(&mut self, name: &CStr, is_directory: bool) {
        if self.run.bytes() + name.count_bytes() >= self.most_memory {
            self.store();
        }
        self.run.add(name, is_directory);
    }

    /// Stores the names of the current run. If that fails, they stay in memory: a full disk loses
    /// no name.
    fn store(&mut self) {
        self.run.sort();
        let stored = match self.spill.store(&self.run) {
            Ok(stored) => {
                self.run.clear();
                SortedRun::Stored(stored)
            }
            Err(_) => SortedRun::InMemory(std::mem::take(&mut self.run)),
        };
        self.runs.push(stored);
    }

    /// Sorts the names.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be read.
    pub(super) fn finish(mut self) -> io::Result<Names> {
        if self.runs.is_empty() {
            self.run.sort();
            self.run.shrink();
            return Ok(Names {
                run: self.run,
                merge: None,
            });
        }
        if !self.run.is_empty() {
            self.store();
        }
        Ok(Names {
            run: Run::default(),
            merge: Some(Merge::new(self.runs).map_err(|error| cannot_read_back(&error))?),
        })
    }
}

impl Merge {
    fn new(runs: Vec<SortedRun>) -> io::Result<Self> {
        let heads = BinaryHeap::with_capacity(runs.len());
        let mut merge = Self {
            runs,
            heads,
            last: Vec::new(),
        };
        for run in 0..merge.runs.len() {
            merge.advance(run)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, run: usize) -> io::Result<()> {
        let key = self.runs[run].next_key()?;
        self.heads.extend(key.map(|key| Reverse((key, run))));
        Ok(())
    }

    fn next_key(&mut self) -> io::Result<Option<Vec<u8>>> {
        while let Some(Reverse((key, run))) = self.heads.pop() {
            self.advance(run)?;
            // A file that is renamed in the meantime may be read twice. No key is empty.
            if key != self.last {
                self.last.clone_from(&key);
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}

/// The name of a key.
fn name(key: &[u8]) -> CString {
    // A name has no zero byte.
    CString::new(key.strip_suffix(b"/").unwrap_or(key)).unwrap_or_default()
}

fn cannot_read_back(error: &io::Error) -> io::Error {
    let message = format!(
        "cannot read the temporary file of its names: {}",
        crate::common::cli::message::worded(error)
    );
    io::Error::new(error.kind(), message)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// Every other name is a directory's. Some come twice.
    fn add_names(mut collector: Collector<'_>) -> io::Result<Names> {
        for n in (0..1000).chain(0..20) {
            let name = CString::new(format!("name-{:03}", n * 7919 % 1000)).unwrap();
            collector.add(&name, n % 2 == 0);
        }
        for name in [c"a", c"a.txt", c"a-b"] {
            collector.add(name, name == c"a");
        }
        collector.finish()
    }

    fn all(mut names: Names) -> io::Result<Vec<CString>> {
        std::iter::from_fn(|| names.next().transpose()).collect()
    }

    fn in_memory() -> Vec<CString> {
        let names = add_names(Collector::new(&mut Spill::default())).unwrap();
        assert!(names.merge.is_none());
        let names = all(names).unwrap();
        assert_eq!(names.len(), 1003);
        assert_eq!(names[..3], [c"a-b", c"a.txt", c"a"].map(CStr::to_owned));
        names
    }

    #[test]
    fn names_that_are_spilled_come_in_the_same_order_and_once() {
        let mut spill = Spill::default();
        for most_memory in [1, 100, 1000, 10_000] {
            let names = add_names(Collector::with_memory(&mut spill, most_memory)).unwrap();
            let merge = names.merge.as_ref().unwrap();
            let is_stored = |run: &SortedRun| matches!(run, SortedRun::Stored(_));
            assert!(merge.runs.len() > 1 && merge.runs.iter().all(is_stored));
            assert_eq!(all(names).unwrap(), in_memory(), "{most_memory}");
        }
    }

    /// The directories on the way to the current one have names at the same time.
    #[test]
    fn directories_share_a_temporary_file_which_does_not_grow_for_ever() {
        let mut spill = Spill::default();
        let mut longest = 0;
        for round in 0..3 {
            let first = add_names(Collector::with_memory(&mut spill, 1000)).unwrap();
            let second = add_names(Collector::with_memory(&mut spill, 1000)).unwrap();
            assert_eq!(all(second).unwrap(), in_memory());
            assert_eq!(all(first).unwrap(), in_memory());
            let len = spill.len();
            assert!(round == 0 || len == longest, "{len}");
            longest = len;
        }
    }

    #[test]
    fn with_few_descriptors_names_stay_in_memory() {
        let mut most_open = 2;
        let mut spill = Spill::in_place_of_level(&mut most_open);
        let names = add_names(Collector::with_memory(&mut spill, 1000)).unwrap();
        let merge = names.merge.as_ref().unwrap();
        let is_in_memory = |run: &SortedRun| matches!(run, SortedRun::InMemory(_));
        assert!(merge.runs.iter().all(is_in_memory));
        assert_eq!(all(names).unwrap(), in_memory());
        assert_eq!(most_open, 2);
    }

    #[test]
    fn a_full_disk_loses_no_name() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut spill = Spill::to(full);
        let names = add_names(Collector::with_memory(&mut spill, 1000)).unwrap();
        assert_eq!(all(names).unwrap(), in_memory());
    }

    #[test]
    fn a_temporary_file_that_cannot_be_read_is_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        let write_only = File::create(scratch.path().join("file")).unwrap();
        let mut spill = Spill::to(write_only);
        let names = add_names(Collector::with_memory(&mut spill, 1000));
        let message = names.unwrap_err().to_string();
        assert!(
            message.starts_with("cannot read the temporary file of its names: "),
            "{message}"
        );
    }
}
