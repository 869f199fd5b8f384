//! Parallel jobs whose results are delivered in the order of the jobs.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::threads;

/// The most bytes of results that may wait for an earlier one. About as many accumulate while one
/// core reads a file of some hundred megabytes, and the others read small ones.
pub(crate) const MAX_WAITING: usize = 8 << 20;

/// The jobs, and the functions that run them and deliver their results.
pub(crate) struct OrderedJobs<Next, Start, Weigh, Deliver> {
    /// Returns the next job. It is not called again after it has returned `None`.
    pub(crate) next: Next,
    /// Returns the function by which one thread runs its jobs.
    pub(crate) start: Start,
    /// Returns the size of a result in memory, in bytes.
    pub(crate) weigh: Weigh,
    /// Receives the results in the order of their jobs. An error ends all work.
    pub(crate) deliver: Deliver,
}

/// Runs all jobs on `n_threads` threads, one of which is the caller's.
///
/// A thread waits for another one only while 8 MiB of results wait for an earlier one. Until then a
/// long job does not delay the others, and a million jobs need no more memory than a few.
///
/// # Errors
///
/// Returns the error of `deliver`, after which no job is started.
pub(crate) fn in_order<Job, Done, E, Work, Next, Start, Weigh, Deliver>(
    n_threads: usize,
    ordered_jobs: OrderedJobs<Next, Start, Weigh, Deliver>,
) -> Result<(), E>
where
    Done: Send,
    E: Send,
    Work: FnMut(Job) -> Done,
    Next: FnMut() -> Option<Job> + Send,
    Start: Fn() -> Work + Sync,
    Weigh: Fn(&Done) -> usize + Sync,
    Deliver: FnMut(&mut dyn Iterator<Item = Done>) -> Result<(), E> + Send,
{
    let OrderedJobs {
        next,
        start,
        weigh,
        deliver,
    } = ordered_jobs;
    let queue = Mutex::new(Queue {
        turn: 0,
        next: Some(next),
    });
    let buffer = ReorderBuffer {
        state: Mutex::new(State {
            due: 0,
            waiting: VecDeque::new(),
            n_bytes: 0,
            is_closed: false,
            error: None,
            deliver,
        }),
        has_room: Condvar::new(),
        weigh,
    };
    let serve = || {
        drop(queue.lock());
        let _guard = ClosedByPanic(&buffer);
        let mut work = start();
        while let Some((turn, job)) = take(&queue, &buffer) {
            buffer.submit(turn, work(job));
        }
    };
    thread::scope(|scope| {
        // No thread works, and takes memory, before all have started.
        let all_started = queue.lock();
        for _ in 1..n_threads {
            // Without this thread the work takes longer.
            let _ = threads::spawn_scoped(scope, serve);
        }
        drop(all_started);
        serve();
    });
    let state = buffer.state.into_inner();
    match state.unwrap_or_else(PoisonError::into_inner).error {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The jobs that no thread has taken.
struct Queue<Next> {
    turn: u64,
    next: Option<Next>,
}

/// Takes the next job as soon as there is room for its result.
///
/// A thread that waits here blocks only threads that want to take a job.
fn take<Job, Done, E, Next, Weigh, Deliver>(
    queue: &Mutex<Queue<Next>>,
    buffer: &ReorderBuffer<Done, E, Weigh, Deliver>,
) -> Option<(u64, Job)>
where
    Next: FnMut() -> Option<Job>,
{
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    if buffer.wait_for_room() {
        return None;
    }
    let Some(job) = queue.next.as_mut().and_then(|next| next()) else {
        // A terminal would be read again after its end.
        queue.next = None;
        return None;
    };
    let turn = queue.turn;
    queue.turn += 1;
    Some((turn, job))
}

/// Holds results until all earlier ones have been delivered.
struct ReorderBuffer<Done, E, Weigh, Deliver> {
    state: Mutex<State<Done, E, Deliver>>,
    has_room: Condvar,
    weigh: Weigh,
}

struct State<Done, E, Deliver> {
    /// The job whose result is delivered next. It is the first in `waiting`.
    due: u64,
    waiting: VecDeque<Option<Done>>,
    /// The size of the results in `waiting`.
    n_bytes: usize,
    is_closed: bool,
    error: Option<E>,
    deliver: Deliver,
}

impl<Done, E, Weigh, Deliver> ReorderBuffer<Done, E, Weigh, Deliver> {
    fn lock(&self) -> MutexGuard<'_, State<Done, E, Deliver>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room, and returns true if there will be none because the work has ended.
    fn wait_for_room(&self) -> bool {
        let is_full = |state: &mut State<_, _, _>| state.n_bytes > MAX_WAITING && !state.is_closed;
        let waited = self.has_room.wait_while(self.lock(), is_full);
        waited.unwrap_or_else(PoisonError::into_inner).is_closed
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.has_room.notify_all();
    }
}

impl<Done, E, Weigh, Deliver> ReorderBuffer<Done, E, Weigh, Deliver>
where
    Weigh: Fn(&Done) -> usize,
    Deliver: FnMut(&mut dyn Iterator<Item = Done>) -> Result<(), E>,
{
    /// Stores the result of a job, and delivers all results that are due.
    fn submit(&self, turn: u64, done: Done) {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.n_bytes += (self.weigh)(&done);
        // The number of waiting results fits in memory.
        let place = (turn - state.due) as usize;
        if state.waiting.len() <= place {
            state.waiting.resize_with(place + 1, || None);
        }
        state.waiting[place] = Some(done);
        let n_due = state.waiting.iter().take_while(|done| done.is_some());
        let n_due = n_due.count();
        if n_due == 0 || state.is_closed {
            return;
        }
        state.due += n_due as u64;
        let was_full = state.n_bytes > MAX_WAITING;
        let due = state.waiting.drain(..n_due).flatten();
        let n_bytes = &mut state.n_bytes;
        let mut due = due.inspect(|done| *n_bytes -= (self.weigh)(done));
        if let Err(error) = (state.deliver)(&mut due) {
            state.error = Some(error);
            state.is_closed = true;
        }
        drop(due);
        // No other thread waits. Waking none would still be a system call.
        let may_be_awaited = was_full || state.is_closed;
        drop(guard);
        if may_be_awaited {
            self.has_room.notify_all();
        }
    }
}

/// Ends the work if its thread panics. Without this, the others would wait for its result.
struct ClosedByPanic<'a, Done, E, Weigh, Deliver>(&'a ReorderBuffer<Done, E, Weigh, Deliver>);

impl<Done, E, Weigh, Deliver> Drop for ClosedByPanic<'_, Done, E, Weigh, Deliver> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.close();
        }
    }
}

#[cfg(test)]
mod tests;
