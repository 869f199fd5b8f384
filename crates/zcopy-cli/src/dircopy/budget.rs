//! What the descriptors that a process may have are for.

use std::num::NonZeroUsize;

use super::tree::WhileWaiting;
use super::tree::reopening::count_open;
use super::written_back::MAX_KEPT;
use crate::order::MOST_WAITING;
use crate::sys;

/// Copies of standard output and error, `/dev/null`, both roots, the newest manifest with its comments, sorted records, the journal,
/// and the new manifests of both algorithms.
const OF_A_COPY: usize = 11;

/// A directory of the walk, the one above it, which is closed when this one has been entered, and a file for a moment.
const OF_THE_WALK: usize = 5;

/// The directory of a link, and the way to its first name, or a file, its copy and another descriptor of that, if it cannot be linked.
const OF_LINKS: usize = 5;

/// Two levels of the tree that is counted for the progress.
const OF_THE_PRESCAN: usize = 2;

/// The least that a copy gets on with, besides [these](OF_A_COPY). One thread does all in turn: it walks on, with the directory of a job
/// open; it copies, with a file, its copy, another descriptor of that, and a directory of the walk open; or it makes a link.
const LEAST_OF_WORK: usize = OF_THE_WALK + OF_A_DIRECTORY;

/// Copies of standard output and error, `/dev/null`, the root, the manifest with its comments, sorted records, sorted names, and the
/// way to a file whose size is added to the total.
const OF_A_CHECK: usize = 10;

/// The way to a file, and the file; and two levels of the tree that is searched for files that are not listed.
const OF_A_VERIFIER: usize = 2;

/// A job's open files besides those at hand: those of its directory, and two for a moment.
const OF_A_JOB: usize = 4;

/// A file and its copy.
const OF_A_FILE: usize = 2;

/// A directory and its copy.
const OF_A_DIRECTORY: usize = 2;

/// Clones that are read from the disk together: 16 make up for its latency, and so do 64 of all copiers.
const READ_TOGETHER: usize = 16;
const READ_TOGETHER_BY_ALL: usize = 64;

/// More directories do not wait for their links' turns.
const MOST_DIRECTORIES: usize = 512;

/// With fewer they are closed while they wait: the copying would stop for them again and again.
const FEWEST_DIRECTORIES: usize = 8;

/// How much memory a directory takes that is closed while it waits, in bytes.
const OF_A_CLOSED_DIRECTORY: usize = 1 << 10;

/// A higher limit is not used up by what was open when this process began.
const MANY: usize = 1024;

/// How many descriptors a process may have besides those that it began with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptors {
    limit: usize,
    n_free: usize,
}

/// A limit with which nothing can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too few descriptors: {limit} may be open (ulimit -n), and {needed} are needed")]
pub(super) struct TooFew {
    limit: usize,
    needed: usize,
}

impl Descriptors {
    /// Those of this process, when nothing has been opened yet. The limit is raised as far as it goes.
    pub(super) fn of_process() -> Self {
        sys::allow_descriptors();
        let limit = sys::most_descriptors();
        let n_open = if limit < MANY { count_open() } else { None };
        // Without /proc it is not known who left which open.
        Self::new(limit, n_open.unwrap_or(3))
    }

    fn new(limit: usize, n_open: usize) -> Self {
        let n_free = limit.saturating_sub(n_open);
        Self { limit, n_free }
    }

    /// What is left if a number of them is used for something.
    fn besides(self, n_used: usize, n_least: usize) -> Result<usize, TooFew> {
        let needed = n_used + n_least;
        if self.n_free < needed {
            let n_open = self.limit - self.n_free;
            return Err(TooFew {
                limit: self.limit,
                needed: needed + n_open,
            });
        }
        Ok(self.n_free - n_used)
    }

    /// How many files are verified at once, if so many are wanted.
    ///
    /// # Errors
    ///
    /// There are too few for one.
    pub(super) fn verifiers(self, wanted: NonZeroUsize) -> Result<NonZeroUsize, TooFew> {
        // One of them finds the next file meanwhile.
        let n = self.besides(OF_A_CHECK + OF_A_VERIFIER, OF_A_VERIFIER)?;
        let most = NonZeroUsize::new(n / OF_A_VERIFIER).unwrap_or(NonZeroUsize::MIN);
        Ok(wanted.min(most))
    }

    /// How many levels of a tree stay open whose files are verified later.
    pub(super) fn levels_of_a_check(self) -> usize {
        self.n_free.saturating_sub(OF_A_CHECK + 1).max(1)
    }
}

/// How many descriptors there are for what needs the more the more of it is done at once. A quarter of them is for links that wait for
/// their turns, a quarter for levels of both trees, a sixteenth for files that a disk did not take, the rest for jobs.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::struct_field_names,
    reason = "each says what its descriptors are for"
)]
pub(super) struct Budget {
    for_jobs: usize,
    for_links: usize,
    for_levels: usize,
    for_prescan: usize,
    for_unwritten: usize,
}

impl Budget {
    /// Shares them out for a copy.
    ///
    /// # Errors
    ///
    /// There are too few.
    pub(super) fn of(descriptors: Descriptors) -> Result<Self, TooFew> {
        let n = descriptors.besides(OF_A_COPY, LEAST_OF_WORK)?;
        let more = n.saturating_sub(OF_THE_WALK + OF_LINKS + OF_THE_PRESCAN);
        Ok(Self {
            for_jobs: more / 16 * 7,
            for_links: more / 4,
            for_levels: more / 8,
            for_prescan: (n - LEAST_OF_WORK).min(OF_THE_PRESCAN + more / 8),
            for_unwritten: more / 16,
        })
    }

    /// As many jobs as are wanted, or as there is room for, with two files each.
    pub(super) fn jobs(self, wanted: usize) -> usize {
        wanted
            .min(self.for_jobs / (OF_A_JOB + 2 * OF_A_FILE))
            .max(1)
    }

    /// How many files a job has open together that makes short ones, if so many of the jobs do, one at least: as many as are read from the disk
    /// together, or hashed together in so many lanes.
    pub(super) fn ahead(self, n_jobs: usize, n_makers: usize, n_lanes: usize) -> usize {
        let taken = n_jobs * (OF_A_JOB + OF_A_FILE);
        let more = self.for_jobs.saturating_sub(taken) / (n_makers * OF_A_FILE);
        let wanted = (READ_TOGETHER_BY_ALL / n_makers).min(READ_TOGETHER);
        wanted.max(n_lanes).min(1 + more)
    }

    /// How many levels of the tree stay open.
    pub(super) fn levels(self) -> usize {
        1 + self.for_levels / OF_A_DIRECTORY
    }

    /// How many levels stay open of the tree that is counted for the progress. `None` if it is not counted.
    pub(super) fn levels_of_the_prescan(self) -> Option<NonZeroUsize> {
        // One more is open for a moment.
        NonZeroUsize::new(self.for_prescan.saturating_sub(1))
    }

    /// How many files stay open that a disk did not take, each with its directory.
    pub(super) fn unwritten_files(self) -> usize {
        (self.for_unwritten / OF_A_FILE).min(MAX_KEPT)
    }

    /// Whether directories stay open while links in them wait.
    pub(super) fn while_waiting(self) -> WhileWaiting {
        if self.for_links / OF_A_DIRECTORY < FEWEST_DIRECTORIES {
            WhileWaiting::Closed
        } else {
            WhileWaiting::Open
        }
    }

    /// What a directory that waits for the turns of its links weighs, in bytes of results.
    pub(super) fn weight_of_directory(self) -> usize {
        match self.while_waiting() {
            WhileWaiting::Closed => OF_A_CLOSED_DIRECTORY,
            WhileWaiting::Open => {
                let most = self.for_links / OF_A_DIRECTORY;
                MOST_WAITING / most.min(MOST_DIRECTORIES)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit: usize) -> Result<Budget, TooFew> {
        Budget::of(Descriptors::new(limit, 3))
    }

    #[test]
    fn nothing_goes_beyond_the_limit_together() {
        for limit in (21..2000).chain([4096, 1 << 20, usize::MAX]) {
            let budget = budget(limit).unwrap();
            let crowds = [(1, 1), (2, 1), (4, 4), (16, 2), (64, 4), (4096, 4096)];
            for ((wanted, makers), n_lanes) in
                crowds.map(|crowd| [(crowd, 1), (crowd, 16)]).as_flattened()
            {
                let n_jobs = budget.jobs(*wanted);
                let n_makers = n_jobs.min(*makers);
                let ahead = budget.ahead(n_jobs, n_makers, *n_lanes);
                assert!((1..=*wanted).contains(&n_jobs) && (1..=16).contains(&ahead));
                let files = n_makers * (ahead - 1) * OF_A_FILE;
                let prescan = budget.levels_of_the_prescan();
                let prescan = prescan.map_or(0, |levels| levels.get() + 1);
                let levels = (budget.levels() - 1) * OF_A_DIRECTORY;
                let unwritten = budget.unwritten_files() * OF_A_FILE;
                let kept = 3 + OF_A_COPY + prescan + levels + unwritten;
                let needed = if n_jobs == 1 && ahead == 1 {
                    kept + LEAST_OF_WORK.max(OF_A_DIRECTORY + OF_LINKS)
                } else {
                    kept + OF_THE_WALK + OF_LINKS + n_jobs * (OF_A_JOB + OF_A_FILE) + files
                };
                let links = match budget.while_waiting() {
                    WhileWaiting::Closed => 0,
                    WhileWaiting::Open => {
                        let most = MOST_WAITING / budget.weight_of_directory();
                        assert!((1..=512).contains(&most));
                        most * OF_A_DIRECTORY
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
        assert_eq!([1, 4, 8, 64].map(|n| budget.ahead(n, n, 1)), [16, 16, 8, 1]);
        assert_eq!(budget.ahead(64, 4, 1), 16);
        assert_eq!(budget.ahead(64, 64, 8), 8);
        assert_eq!(budget.ahead(64, 64, 16), 16);
        assert_eq!(budget.weight_of_directory(), 16 << 10);
        assert_eq!(budget.while_waiting(), WhileWaiting::Open);
        assert!(budget.levels() > 60_000);
    }

    #[test]
    fn the_usual_limit_bounds_no_ordinary_copy() {
        let budget = budget(1024).unwrap();
        assert!(budget.jobs(64) >= 50 && budget.levels() >= 60);
        assert!(budget.levels_of_the_prescan().unwrap().get() >= 100);
    }

    #[test]
    fn with_twenty_four_all_is_done_in_turn() {
        let budget = budget(24).unwrap();
        assert_eq!((budget.jobs(64), budget.ahead(1, 1, 16)), (1, 1));
        assert_eq!(budget.levels(), 1);
        assert_eq!(budget.levels_of_the_prescan(), NonZeroUsize::new(1));
        assert_eq!(budget.while_waiting(), WhileWaiting::Closed);
    }

    #[test]
    fn too_few_are_refused_in_words() {
        let words = "too few descriptors: 20 may be open (ulimit -n), and 21 are needed";
        assert_eq!(budget(20).unwrap_err().to_string(), words);
        assert!(budget(21).is_ok());
        // Some were open before.
        let error = Budget::of(Descriptors::new(24, 7)).unwrap_err();
        let words = "too few descriptors: 24 may be open (ulimit -n), and 25 are needed";
        assert_eq!(error.to_string(), words);
    }

    #[test]
    fn files_are_verified_one_after_another_if_need_be() {
        let n = |n| NonZeroUsize::new(n).unwrap();
        let verifiers = |limit| Descriptors::new(limit, 3).verifiers(n(16));
        assert!(verifiers(16).is_err());
        assert_eq!(verifiers(17), Ok(n(1)));
        assert_eq!(verifiers(24), Ok(n(4)));
        assert_eq!(verifiers(1024), Ok(n(16)));
        assert_eq!(Descriptors::new(17, 3).levels_of_a_check(), 3);
    }
}
