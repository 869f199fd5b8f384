//! Keeps the runs of several destinations close together, so that what one has read is still in
//! the page cache when the next one reads it, and long files are read once for all.

use std::collections::VecDeque;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Batch;
use crate::dircopy::interrupt::Interrupt;
use crate::dircopy::stat::size;

/// The most batches that a run takes before the slowest one has taken them.
const MAX_BATCHES: usize = 32;

/// The most bytes in these batches: 256 MiB.
const MAX_BYTES: u64 = 256 << 20;

/// How often a run that waits looks whether a signal has come.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(100);

/// The positions of all runs in the source.
///
/// The runs walk the same tree in the same order, and a position is the path at which a run wants
/// to begin its next batch. A run waits only for runs with a smaller position, so that the last
/// one never waits. A run that has ended is not waited for.
#[derive(Debug)]
pub(crate) struct Lead {
    runs: Mutex<Vec<Run>>,
    moved: Condvar,
    /// A longer file is begun by all runs together.
    min_joined: u64,
}

/// One run.
#[derive(Debug, Default)]
struct Run {
    state: State,
    /// Where its next batch begins. Empty before the first one, which no path is smaller than.
    position: Vec<u8>,
    /// The batches that it has taken since the slowest run was last seen: where they begin, and
    /// their bytes.
    ahead: VecDeque<(Vec<u8>, u64)>,
}

/// Whether other runs wait for a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Waited,
    /// It waits for another process, which may take any time.
    Aside,
    Ended,
}

impl Lead {
    /// For this number of runs. A batch with a file of `min_joined` bytes or more is begun by all
    /// runs together.
    pub(crate) fn new(n_runs: usize, min_joined: u64) -> Self {
        Self {
            runs: Mutex::new((0..n_runs).map(|_| Run::default()).collect()),
            moved: Condvar::new(),
            min_joined,
        }
    }

    /// The run with this index.
    pub(crate) fn follower(&self, index: usize) -> Follower<'_> {
        Follower { lead: self, index }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Run>> {
        // A change is made by one assignment.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_state(&self, index: usize, state: State) {
        self.lock()[index].state = state;
        self.moved.notify_all();
    }
}

/// A run that keeps close to the others. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Follower<'a> {
    lead: &'a Lead,
    index: usize,
}

impl Follower<'_> {
    /// Waits until the other runs are close enough for this batch to begin, or a signal comes.
    pub(crate) fn take(&self, batch: &Batch, interrupt: &Interrupt) {
        let Some(first) = batch.jobs.first() else {
            return;
        };
        let path = first.entry.path().into_os_string().into_vec();
        let sizes = batch.jobs.iter().map(|job| size(job.entry.stat()));
        let longest = sizes.clone().max().unwrap_or(0);
        let n_bytes = sizes.fold(0, u64::saturating_add);
        self.take_at(path, n_bytes, longest >= self.lead.min_joined, interrupt);
    }

    /// As [`take`](Self::take), for a batch that begins at this path.
    fn take_at(&self, path: Vec<u8>, n_bytes: u64, is_joined: bool, interrupt: &Interrupt) {
        let mut runs = self.lead.lock();
        runs[self.index].position.clone_from(&path);
        self.lead.moved.notify_all();
        while !self.is_close(&mut runs, is_joined) && !interrupt.is_requested() {
            let waited = self.lead.moved.wait_timeout(runs, INTERRUPT_INTERVAL);
            (runs, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        runs[self.index].ahead.push_back((path, n_bytes));
    }

    /// Whether the batch at the position of this run may begin.
    fn is_close(&self, runs: &mut [Run], is_joined: bool) -> bool {
        let others = runs.iter().enumerate();
        let others =
            others.filter(|(index, run)| *index != self.index && run.state == State::Waited);
        let Some(slowest) = others.map(|(_, run)| &run.position).min().cloned() else {
            runs[self.index].ahead.clear();
            return true;
        };
        let Run {
            position, ahead, ..
        } = &mut runs[self.index];
        while ahead.front().is_some_and(|(path, _)| *path < slowest) {
            ahead.pop_front();
        }
        if *position <= slowest {
            return true;
        }
        let n_bytes = ahead.iter().map(|(_, n_bytes)| *n_bytes);
        !is_joined && ahead.len() < MAX_BATCHES && n_bytes.sum::<u64>() < MAX_BYTES
    }

    /// The other runs go on without this one, which waits for another process.
    pub(crate) fn stand_aside(&self) {
        self.lead.set_state(self.index, State::Aside);
    }

    /// Ends what [`stand_aside`](Self::stand_aside) began.
    pub(crate) fn come_back(&self) {
        self.lead.set_state(self.index, State::Waited);
    }

    /// The run takes no further batch.
    pub(crate) fn end(&self) {
        self.lead.set_state(self.index, State::Ended);
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
