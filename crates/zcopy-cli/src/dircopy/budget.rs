//! What the descriptors that a process may have are for.

use crate::sys;

use crate::order::MOST_WAITING;

/// Standard streams and the like, the manifest, both roots, and two for each of some levels of the tree.
const KEPT: usize = 24;

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

/// How many descriptors there are, for what needs the more the more of it is done at once. A quarter of them is for links that wait for
/// their turns, the rest for jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    for_jobs: usize,
    for_links: usize,
}

impl Budget {
    /// That of this process.
    pub(super) fn of_process() -> Self {
        Self::of(sys::most_descriptors())
    }

    fn of(n_descriptors: usize) -> Self {
        let n = n_descriptors.saturating_sub(KEPT);
        Self {
            for_jobs: n - n / 4,
            for_links: n / 4,
        }
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

    /// What a directory that is kept open by links that wait weighs, in bytes of results.
    pub(super) fn weight_of_directory(self) -> usize {
        let most = (self.for_links / OF_A_DIRECTORY).clamp(1, MOST_DIRECTORIES);
        MOST_WAITING / most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_goes_beyond_the_limit_together() {
        for n_descriptors in (0..2000).chain([4096, 1 << 20, usize::MAX]) {
            let budget = Budget::of(n_descriptors);
            let crowds = [(1, 1), (2, 1), (4, 4), (16, 2), (64, 4), (4096, 4096)];
            for ((wanted, makers), n_lanes) in
                crowds.map(|crowd| [(crowd, 1), (crowd, 16)]).as_flattened()
            {
                let n_jobs = budget.jobs(*wanted);
                let n_makers = n_jobs.min(*makers);
                let ahead = budget.ahead(n_jobs, n_makers, *n_lanes);
                let n_directories = MOST_WAITING / budget.weight_of_directory();
                assert!((1..=*wanted).contains(&n_jobs) && (1..=16).contains(&ahead));
                assert!((1..=512).contains(&n_directories));
                let needed = KEPT
                    + n_jobs * (OF_A_JOB + OF_A_FILE)
                    + n_makers * (ahead - 1) * OF_A_FILE
                    + n_directories * OF_A_DIRECTORY;
                // With fewer there is one of each all the same.
                assert!(
                    needed <= n_descriptors.max(40),
                    "{needed} of {n_descriptors}"
                );
            }
        }
    }

    #[test]
    fn many_descriptors_bound_nothing() {
        let budget = Budget::of(1 << 20);
        assert_eq!(budget.jobs(4096), 4096);
        assert_eq!([1, 4, 8, 64].map(|n| budget.ahead(n, n, 1)), [16, 16, 8, 1]);
        assert_eq!(budget.ahead(64, 4, 1), 16);
        assert_eq!(budget.ahead(64, 64, 8), 8);
        assert_eq!(budget.ahead(64, 64, 16), 16);
        assert_eq!(budget.weight_of_directory(), 16 << 10);
    }
}
