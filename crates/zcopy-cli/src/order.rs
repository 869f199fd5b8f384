//! Work that several threads share, and whose results come in order, whichever thread ends first.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// How many bytes of results may wait for an earlier one. So much comes together while one core reads a
/// file of some hundred megabytes, and the others small ones.
pub(crate) const MOST_WAITING: usize = 8 << 20;

/// What is done, and with what.
pub(crate) struct Workshop<Next, Start, Weigh, Deliver> {
    /// Gives the next job; it is asked for none after the last.
    pub(crate) next: Next,
    /// Gives each thread what it does its jobs by.
    pub(crate) start: Start,
    /// How much memory a result holds, in bytes.
    pub(crate) weigh: Weigh,
    /// Takes the results that have become due, in the order of their jobs. An error ends all the work.
    pub(crate) deliver: Deliver,
}

/// Does all jobs, on `n_threads` threads, of which the caller's is one.
///
/// No thread waits for another, but where 8 MiB of results wait for an earlier one. So memory is the same for a million
/// jobs, and one that takes long holds nobody up until then.
///
/// # Errors
///
/// That of `deliver`, after which no job is begun.
pub(crate) fn in_order<Job, Done, E, Work, Next, Start, Weigh, Deliver>(
    n_threads: usize,
    workshop: Workshop<Next, Start, Weigh, Deliver>,
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
    let Workshop {
        next,
        start,
        weigh,
        deliver,
    } = workshop;
    let queue = Mutex::new(Queue {
        turn: 0,
        next: Some(next),
    });
    let desk = Desk {
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
        let _guard = ClosedByPanic(&desk);
        let mut work = start();
        while let Some((turn, job)) = take(&queue, &desk) {
            desk.hand_in(turn, work(job));
        }
    };
    thread::scope(|scope| {
        for _ in 1..n_threads {
            // With fewer threads it takes longer.
            let _ = thread::Builder::new().spawn_scoped(scope, serve);
        }
        serve();
    });
    let state = desk.state.into_inner();
    match state.unwrap_or_else(PoisonError::into_inner).error {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The jobs that nobody has taken.
struct Queue<Next> {
    turn: u64,
    next: Option<Next>,
}

/// Takes the next job, once there is room for what comes of it.
///
/// Whoever waits here, for room or for the job, keeps the others from taking one, and from nothing else.
fn take<Job, Done, E, Next, Weigh, Deliver>(
    queue: &Mutex<Queue<Next>>,
    desk: &Desk<Done, E, Weigh, Deliver>,
) -> Option<(u64, Job)>
where
    Next: FnMut() -> Option<Job>,
{
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    if desk.is_closed_when_there_is_room() {
        return None;
    }
    let Some(job) = queue.next.as_mut().and_then(|next| next()) else {
        // A terminal would be asked once more.
        queue.next = None;
        return None;
    };
    let turn = queue.turn;
    queue.turn += 1;
    Some((turn, job))
}

/// Where results wait for earlier ones.
struct Desk<Done, E, Weigh, Deliver> {
    state: Mutex<State<Done, E, Deliver>>,
    has_room: Condvar,
    weigh: Weigh,
}

struct State<Done, E, Deliver> {
    /// Whose result has to be delivered next. It is at the front of those that wait.
    due: u64,
    waiting: VecDeque<Option<Done>>,
    /// What those that wait hold.
    n_bytes: usize,
    is_closed: bool,
    error: Option<E>,
    deliver: Deliver,
}

impl<Done, E, Weigh, Deliver> Desk<Done, E, Weigh, Deliver> {
    fn lock(&self) -> MutexGuard<'_, State<Done, E, Deliver>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room, and tells whether there will be none because the work is at an end.
    fn is_closed_when_there_is_room(&self) -> bool {
        let is_full = |state: &mut State<_, _, _>| state.n_bytes > MOST_WAITING && !state.is_closed;
        let waited = self.has_room.wait_while(self.lock(), is_full);
        waited.unwrap_or_else(PoisonError::into_inner).is_closed
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.has_room.notify_all();
    }
}

impl<Done, E, Weigh, Deliver> Desk<Done, E, Weigh, Deliver>
where
    Weigh: Fn(&Done) -> usize,
    Deliver: FnMut(&mut dyn Iterator<Item = Done>) -> Result<(), E>,
{
    /// Takes the result of a turn, and delivers all that are due.
    fn hand_in(&self, turn: u64, done: Done) {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.n_bytes += (self.weigh)(&done);
        // As many as there are turns between, which fit in memory.
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
        let was_full = state.n_bytes > MOST_WAITING;
        let due = state.waiting.drain(..n_due).flatten();
        let n_bytes = &mut state.n_bytes;
        let mut due = due.inspect(|done| *n_bytes -= (self.weigh)(done));
        if let Err(error) = (state.deliver)(&mut due) {
            state.error = Some(error);
            state.is_closed = true;
        }
        drop(due);
        // Nobody else waits, and waking nobody is a system call too.
        let may_be_awaited = was_full || state.is_closed;
        drop(guard);
        if may_be_awaited {
            self.has_room.notify_all();
        }
    }
}

/// Ends the work if its thread panics: the others would wait for its result.
struct ClosedByPanic<'a, Done, E, Weigh, Deliver>(&'a Desk<Done, E, Weigh, Deliver>);

impl<Done, E, Weigh, Deliver> Drop for ClosedByPanic<'_, Done, E, Weigh, Deliver> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.close();
        }
    }
}

#[cfg(test)]
mod tests;
