//! The assignment of streams to lanes. When a stream has no blocks left, its lane takes the next
//! stream.

use super::{Block, Compressor, MAX_LANES, State};

/// Blocks of one stream to hash.
#[derive(Debug)]
pub struct Job<'a, T> {
    /// Receives the state after the last block.
    pub owner: T,
    /// The state before the first block.
    pub state: State,
    /// The first blocks.
    pub head: &'a [Block],
    /// The blocks after `head`.
    pub body: &'a [Block],
    /// The last blocks, and their number.
    pub tail: ([Block; 2], usize),
}

impl<T> Job<'_, T> {
    /// Returns the next contiguous blocks. Empty after the last one.
    fn blocks(&self) -> &[Block] {
        if !self.head.is_empty() {
            self.head
        } else if !self.body.is_empty() {
            self.body
        } else {
            let (blocks, n_blocks) = &self.tail;
            &blocks[..*n_blocks]
        }
    }

    /// Removes the first `n` of [`blocks`](Self::blocks).
    fn advance(&mut self, n: usize) {
        if !self.head.is_empty() {
            self.head = &self.head[n..];
        } else if !self.body.is_empty() {
            self.body = &self.body[n..];
        } else {
            let (blocks, n_blocks) = &mut self.tail;
            blocks.copy_within(n.., 0);
            *n_blocks -= n;
        }
    }
}

/// Hashes the blocks of all jobs. Calls `done` with the owner and the last state of each, in the
/// order in which they end.
pub fn hash_jobs<'a, T>(
    compressor: Compressor,
    jobs: impl IntoIterator<Item = Job<'a, T>>,
    mut done: impl FnMut(T, State),
) {
    let mut jobs = jobs.into_iter();
    let mut busy: [Option<Job<'a, T>>; MAX_LANES] = [const { None }; MAX_LANES];
    let busy = &mut busy[..compressor.n_streams()];
    loop {
        for lane in busy.iter_mut() {
            while lane.as_ref().is_none_or(|job| job.blocks().is_empty()) {
                if let Some(job) = lane.take() {
                    done(job.owner, job.state);
                }
                *lane = jobs.next();
                if lane.is_none() {
                    break;
                }
            }
        }
        let n_busy = busy.iter().flatten().count();
        if n_busy == 0 {
            return;
        }
        if n_busy < compressor.worthwhile() {
            for job in busy.iter_mut().flatten() {
                while !job.blocks().is_empty() {
                    let mut state = job.state;
                    compressor.compress_one(&mut state, job.blocks());
                    job.state = state;
                    job.advance(job.blocks().len());
                }
            }
        } else {
            step(compressor, busy);
        }
    }
}

/// Hashes the same number of blocks in all lanes: as many as the lane with the fewest has.
fn step<T>(compressor: Compressor, busy: &mut [Option<Job<'_, T>>]) {
    // An idle lane repeats the work of another. Its result is dropped.
    let Some(any) = busy.iter().flatten().next() else {
        return;
    };
    let mut states = [any.state; MAX_LANES];
    let mut blocks = [any.blocks(); MAX_LANES];
    for (lane, job) in busy.iter().enumerate() {
        if let Some(job) = job {
            states[lane] = job.state;
            blocks[lane] = job.blocks();
        }
    }
    let n_lanes = busy.len();
    let n_blocks = blocks[..n_lanes].iter().map(|blocks| blocks.len()).min();
    compressor.compress(&mut states[..n_lanes], &blocks[..n_lanes]);
    for (job, state) in busy.iter_mut().zip(states) {
        if let Some(job) = job {
            job.state = state;
            job.advance(n_blocks.unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests;
