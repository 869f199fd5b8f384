//! Distributes the descriptors that a process may open.

use std::num::NonZeroUsize;

use crate::common::parallel::MAX_WAITING;
use crate::common::sys;
use crate::dircopy::walk::DeferredDirs;
use crate::dircopy::walk::reopening::count_open;
use crate::dircopy::write::unwritten_files::MAX_KEPT;

/// Copies of standard output and error, `/dev/null`, both roots, the newest manifest and its
/// comments, sorted records, the journal, and a new manifest for each of two algorithms.
const DESCRIPTORS_PER_COPY: usize = 11;

/// The walk's directory and its copy, the directory above and its copy, which are closed right
/// after, and a file for a moment.
const DESCRIPTORS_OF_WALK: usize = 5;

/// To make a link: its directory in both trees, and the path to the first name. If it cannot be
/// made, the path gives way to the file, its copy and a second descriptor of the copy.
const DESCRIPTORS_OF_LINKS: usize = 5;

/// Two levels of the tree that the pre-scan counts.
const DESCRIPTORS_OF_PRESCAN: usize = 2;

/// The fewest with which a copy works, besides [`DESCRIPTORS_PER_COPY`]. One thread then takes
/// turns: it walks on, while a job keeps its directory open; it copies a file, with a second
/// descriptor of the copy and a directory of the walk open; or it makes a link.
const MIN_DESCRIPTORS_OF_WORK: usize = DESCRIPTORS_OF_WALK + DESCRIPTORS_PER_DIRECTORY;

/// Copies of standard output and error, `/dev/null`, the root, the manifest and its comments,
/// sorted records, sorted names, and the directory and the file whose size is added to the total.
const DESCRIPTORS_PER_CHECK: usize = 10;

/// A file that is verified, and a directory on the path to it.
const DESCRIPTORS_PER_VERIFIER: usize = 2;

/// The directory of a job's files, its copy, and two for a moment.
const DESCRIPTORS_PER_JOB: usize = 4;

/// A file and its copy.
const DESCRIPTORS_PER_FILE: usize = 2;

/// A directory and its copy.
const DESCRIPTORS_PER_DIRECTORY: usize = 2;

/// The most clones that one thread reads ahead: 16 make up for the latency of a disk.
const MAX_READ_AHEAD: usize = 16;

/// The most clones that all threads together read ahead, for the same reason.
const MAX_READ_AHEAD_OF_ALL: usize = 64;

/// The most directories that stay open while links in them wait.
const MAX_WAITING_DIRECTORIES: usize = 512;

/// With fewer descriptors than these directories need, waiting directories are closed: the copying
/// would stop for them too often.
const MIN_WAITING_DIRECTORIES: usize = 8;

/// The most files that wait until they begin to be written to the disk: each is 1 MiB or more, and
/// together they bridge a stall.
const MAX_WRITE_BACKS: usize = 32;

/// The memory that a closed directory takes while it waits, in bytes.
const BYTES_PER_CLOSED_DIRECTORY: usize = 1 << 10;

/// From this limit on, descriptors that were open when the process began are not counted: they are
/// few in comparison.
const HIGH_LIMIT: usize = 1024;

/// The descriptors that a process may open, for each of several copies at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptors {
    limit: usize,
    /// Those that it began with.
    n_open: usize,
    n_copies: NonZeroUsize,
}

/// The limit is too low for any work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too few descriptors: {limit} may be open (ulimit -n), and {needed} are needed")]
pub(crate) struct TooFew {
    limit: usize,
    needed: usize,
}

impl Descriptors {
    /// Counts the descriptors of this process, which must not have opened any yet. Raises the soft
    /// limit to the hard limit.
    pub(crate) fn of_process() -> Self {
        sys::allow_descriptors();
        let limit = sys::most_descriptors();
        let n_open = if limit < HIGH_LIMIT {
            count_open()
        } else {
            None
        };
        // Without /proc the standard streams are assumed to be open, and no others.
        Self::new(limit, n_open.unwrap_or(3))
    }

    fn new(limit: usize, n_open: usize) -> Self {
        Self {
            limit,
            n_open,
            n_copies: NonZeroUsize::MIN,
        }
    }

    /// The same for this number of copies at the same time.
    pub(crate) fn divided_by(self, n_copies: NonZeroUsize) -> Self {
        Self { n_copies, ..self }
    }

    /// The descriptors of each copy.
    fn n_free(self) -> usize {
        self.limit.saturating_sub(self.n_open) / self.n_copies
    }

    /// The number of descriptors that are left of each copy besides `n_used`, at least `n_least`.
    fn besides(self, n_used: usize, n_least: usize) -> Result<usize, TooFew> {
        let needed = n_used + n_least;
        if self.n_free() < needed {
            return Err(TooFew {
                limit: self.limit,
                needed: needed * self.n_copies.get() + self.n_open,
            });
        }
        Ok(self.n_free() - n_used)
    }

    /// The number of files to verify at the same time, at most `wanted`.
    ///
    /// # Errors
    ///
    /// The descriptors do not suffice for one.
    pub(crate) fn verifiers(self, wanted: NonZeroUsize) -> Result<NonZeroUsize, TooFew> {
        // One more thread finds the next file in the meantime.
        let n = self.besides(
            DESCRIPTORS_PER_CHECK + DESCRIPTORS_PER_VERIFIER,
            DESCRIPTORS_PER_VERIFIER,
        )?;
        let most = NonZeroUsize::new(n / DESCRIPTORS_PER_VERIFIER).unwrap_or(NonZeroUsize::MIN);
        Ok(wanted.min(most))
    }

    /// The number of levels to keep open of a tree that is searched for files without a record. The
    /// search opens one more for a moment. It ends before the first file is verified, so that it
    /// may use the descriptors of the verifiers.
    pub(crate) fn check_levels(self) -> usize {
        self.n_free()
            .saturating_sub(DESCRIPTORS_PER_CHECK + 1)
            .max(1)
    }
}

/// The descriptors for work that can be done in parallel: a quarter for links that wait for their
/// turns, a quarter for levels of the walk and the pre-scan, a sixteenth for files that are to be
/// written to the disk or could not be, the rest for jobs.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::struct_field_names,
    reason = "each says what its descriptors are for"
)]
pub(crate) struct FdBudget {
    for_jobs: usize,
    for_links: usize,
    for_levels: usize,
    for_prescan: usize,
    /// For files that could not be written, and for files that are to be written.
    for_unwritten: usize,
}

impl FdBudget {
    /// Distributes the descriptors of a copy.
    ///
    /// # Errors
    ///
    /// The limit is too low.
    pub(crate) fn of(descriptors: Descriptors) -> Result<Self, TooFew> {
        let n = descriptors.besides(DESCRIPTORS_PER_COPY, MIN_DESCRIPTORS_OF_WORK)?;
        let more =
            n.saturating_sub(DESCRIPTORS_OF_WALK + DESCRIPTORS_OF_LINKS + DESCRIPTORS_OF_PRESCAN);
        Ok(Self {
            for_jobs: more / 16 * 7,
            for_links: more / 4,
            for_levels: more / 8,
            for_prescan: (n - MIN_DESCRIPTORS_OF_WORK).min(DESCRIPTORS_OF_PRESCAN + more / 8),
            for_unwritten: more / 16,
        })
    }

    /// The number of jobs, at most `wanted`. Each may have two files open.
    pub(crate) fn jobs(self, wanted: usize) -> usize {
        wanted
            .min(self.for_jobs / (DESCRIPTORS_PER_JOB + 2 * DESCRIPTORS_PER_FILE))
            .max(1)
    }

    /// The number of files that a job which copies short files may have open together: enough to
    /// read clones ahead, and to hash or sync `n_together` files at once. `n_creators` of the
    /// `n_jobs` copy short files; one at least.
    pub(crate) fn group_size(self, n_jobs: usize, n_creators: usize, n_together: usize) -> usize {
        // A group that is synced together opens its directory once more.
        let taken = n_jobs * (DESCRIPTORS_PER_JOB + DESCRIPTORS_PER_FILE) + n_creators;
        let more = self.for_jobs.saturating_sub(taken) / (n_creators * DESCRIPTORS_PER_FILE);
        let wanted = (MAX_READ_AHEAD_OF_ALL / n_creators).min(MAX_READ_AHEAD);
        wanted.max(n_together).min(1 + more)
    }

    /// The number of levels of the tree that stay open.
    pub(crate) fn levels(self) -> usize {
        1 + self.for_levels / DESCRIPTORS_PER_DIRECTORY
    }

    /// The number of levels that the pre-scan keeps open. `None` if there is no pre-scan.
    pub(crate) fn prescan_levels(self) -> Option<NonZeroUsize> {
        // It opens one more for a moment.
        NonZeroUsize::new(self.for_prescan.saturating_sub(1))
    }

    /// The number of files that stay open after their write-back failed, each with its directory.
    pub(crate) fn n_unwritten_files(self) -> usize {
        (self.for_unwritten / DESCRIPTORS_PER_FILE).min(MAX_KEPT)
    }

    /// The number of files that may wait until they begin to be written to the disk, after their
    /// copies. One more is at the disk.
    pub(crate) fn n_write_backs(self) -> usize {
        let n_unwritten = self.n_unwritten_files() * DESCRIPTORS_PER_FILE;
        let n_left = self.for_unwritten.saturating_sub(n_unwritten + 1);
        n_left.min(MAX_WRITE_BACKS)
    }

    /// Whether directories stay open while links in them wait.
    pub(crate) fn deferred_dirs(self) -> DeferredDirs {
        if self.for_links / DESCRIPTORS_PER_DIRECTORY < MIN_WAITING_DIRECTORIES {
            DeferredDirs::Closed
        } else {
            DeferredDirs::Open
        }
    }

    /// The share that a waiting directory has in the memory for waiting results, in bytes.
    pub(crate) fn deferred_dir_weight(self) -> usize {
        match self.deferred_dirs() {
            DeferredDirs::Closed => BYTES_PER_CLOSED_DIRECTORY,
            DeferredDirs::Open => {
                let n_open = self.for_links / DESCRIPTORS_PER_DIRECTORY;
                MAX_WAITING / n_open.min(MAX_WAITING_DIRECTORIES)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit: usize) -> Result<FdBudget, TooFew> {
        FdBudget::of(Descriptors::new(limit, 3))
    }

    #[test]
    fn nothing_goes_beyond_the_limit_together() {
        for limit in (21..2000).chain([4096, 1 << 20, usize::MAX]) {
            let budget = budget(limit).unwrap();
            let crowds = [(1, 1), (2, 1), (4, 4), (16, 2), (64, 4), (4096, 4096)];
            for ((wanted, creators), n_lanes) in
                crowds.map(|crowd| [(crowd, 1), (crowd, 16)]).as_flattened()
            {
                let n_jobs = budget.jobs(*wanted);
                let n_creators = n_jobs.min(*creators);
                let ahead = budget.group_size(n_jobs, n_creators, *n_lanes);
                assert!((1..=*wanted).contains(&n_jobs) && (1..=16).contains(&ahead));
                let files = n_creators * (ahead - 1) * DESCRIPTORS_PER_FILE;
                let prescan = budget.prescan_levels();
                let prescan = prescan.map_or(0, |levels| levels.get() + 1);
                let levels = (budget.levels() - 1) * DESCRIPTORS_PER_DIRECTORY;
                let unwritten = budget.n_unwritten_files() * DESCRIPTORS_PER_FILE;
                let write_backs = match budget.n_write_backs() {
                    0 => 0,
                    n => n + 1,
                };
                let kept = 3 + DESCRIPTORS_PER_COPY + prescan + levels + unwritten + write_backs;
                let needed = if n_jobs == 1 && ahead == 1 {
                    kept + MIN_DESCRIPTORS_OF_WORK
                        .max(DESCRIPTORS_PER_DIRECTORY + DESCRIPTORS_OF_LINKS)
                } else {
                    kept + DESCRIPTORS_OF_WALK
                        + DESCRIPTORS_OF_LINKS
                        + n_jobs * (DESCRIPTORS_PER_JOB + DESCRIPTORS_PER_FILE)
                        + files
                };
                let links = match budget.deferred_dirs() {
                    DeferredDirs::Closed => 0,
                    DeferredDirs::Open => {
                        let most = MAX_WAITING / budget.deferred_dir_weight();
                        assert!((1..=512).contains(&most));
                        most * DESCRIPTORS_PER_DIRECTORY
                    }
                };
                assert!(needed + links <= limit, "{needed} and {links} of {limit}");
            }
        }
    }

    #[test]
    fn many_descriptors_bound_nothing() {
        let budget = budget(1 << 20).unwrap();
        assert_eq!(budget.jobs(4096), 4096);
        assert_eq!(
            [1, 4, 8, 64].map(|n| budget.group_size(n, n, 1)),
            [16, 16, 8, 1]
        );
        assert_eq!(budget.group_size(64, 4, 1), 16);
        assert_eq!(budget.group_size(64, 64, 8), 8);
        assert_eq!(budget.group_size(64, 64, 16), 16);
        assert_eq!(budget.deferred_dir_weight(), 16 << 10);
        assert_eq!(budget.deferred_dirs(), DeferredDirs::Open);
        assert!(budget.levels() > 60_000);
    }

    #[test]
    fn the_usual_limit_bounds_no_ordinary_copy() {
        let budget = budget(1024).unwrap();
        assert!(budget.jobs(64) >= 50 && budget.levels() >= 60);
        assert!(budget.prescan_levels().unwrap().get() >= 100);
    }

    #[test]
    fn with_twenty_four_all_is_done_in_turn() {
        let budget = budget(24).unwrap();
        assert_eq!((budget.jobs(64), budget.group_size(1, 1, 16)), (1, 1));
        assert_eq!(budget.levels(), 1);
        assert_eq!(budget.prescan_levels(), NonZeroUsize::new(1));
        assert_eq!(budget.deferred_dirs(), DeferredDirs::Closed);
    }

    #[test]
    fn too_few_are_refused_in_words() {
        let words = "too few descriptors: 20 may be open (ulimit -n), and 21 are needed";
        assert_eq!(budget(20).unwrap_err().to_string(), words);
        assert!(budget(21).is_ok());
        // Seven descriptors were open before.
        let error = FdBudget::of(Descriptors::new(24, 7)).unwrap_err();
        let words = "too few descriptors: 24 may be open (ulimit -n), and 25 are needed";
        assert_eq!(error.to_string(), words);
        // Each of two copies needs its own.
        let both = |limit| {
            let descriptors = Descriptors::new(limit, 3);
            FdBudget::of(descriptors.divided_by(NonZeroUsize::new(2).unwrap()))
        };
        let words = "too few descriptors: 38 may be open (ulimit -n), and 39 are needed";
        assert_eq!(both(38).unwrap_err().to_string(), words);
        assert!(both(39).is_ok());
    }

    #[test]
    fn files_are_verified_one_after_another_if_need_be() {
        let n = |n| NonZeroUsize::new(n).unwrap();
        let verifiers = |limit| Descriptors::new(limit, 3).verifiers(n(16));
        assert!(verifiers(16).is_err());
        assert_eq!(verifiers(17), Ok(n(1)));
        assert_eq!(verifiers(24), Ok(n(4)));
        assert_eq!(verifiers(1024), Ok(n(16)));
        assert_eq!(Descriptors::new(17, 3).check_levels(), 3);
    }
}
