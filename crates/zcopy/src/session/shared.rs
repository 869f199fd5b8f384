//! [`Shared`]: steps that a thread takes while a task waits.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::{Progressed, Steps};
use crate::error::{Error, RunError};
use crate::progress::Progress;
use crate::report::Report;
use crate::stop::Stop;
use crate::sys::{Linux, WithOwners};
use crate::wait::Event;

/// The steps of a session, with descriptors of their own.
///
/// A thread that takes a step holds the lock meanwhile, so that the session waits for it. The task
/// that asked for the step may have gone, and so may the session and its ends: the last one that
/// has the steps ends the transfer.
#[derive(Default)]
pub(crate) struct Shared<'a> {
    state: Arc<Mutex<State<'a>>>,
    /// The caller's `Stop`, which the task waits for.
    stop: Option<Stop>,
    /// Held by a job until it is over. A task waits for it before it asks for a thread, so that at
    /// most one job of a session occupies a thread. (Those of dropped futures could occupy the whole
    /// pool.)
    job_lock: Arc<AsyncMutex<()>>,
}

#[derive(Default)]
struct State<'a> {
    /// `None` once the transfer is finished.
    steps: Option<WithOwners<Steps<'a, Linux>, HashMap<RawFd, OwnedFd>>>,
    /// The failure of a step whose task has gone. The next call returns it.
    failure: Option<Error>,
}

/// A job for a thread of tokio's pool: it takes several steps.
pub(crate) struct PoolJob<'a> {
    state: Arc<Mutex<State<'a>>>,
    is_wanted: Arc<AtomicBool>,
    _lock: OwnedMutexGuard<()>,
}

/// Makes a job end before its next step once this is dropped.
pub(crate) struct CancelOnDrop(Arc<AtomicBool>);

impl<'a> Shared<'a> {
    /// Lets the steps use duplicates of their descriptors, which are found by their numbers.
    pub(super) fn new(mut steps: Steps<'a, Linux>, duplicates: HashMap<RawFd, OwnedFd>) -> Self {
        let stop = steps.stop();
        let steps = WithOwners::new(duplicates, |duplicates, lender| {
            steps.exchange_fds(|fd| lender.lend(duplicates[&fd.as_raw_fd()].as_fd()));
            steps
        });
        let state = State {
            steps: Some(steps),
            failure: None,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            stop,
            job_lock: Arc::default(),
        }
    }

    /// Waits until no other job is under way. Returns a job, and what keeps it going.
    pub(crate) async fn job(&self) -> (PoolJob<'a>, CancelOnDrop) {
        let lock = Arc::clone(&self.job_lock).lock_owned().await;
        let is_wanted = Arc::new(AtomicBool::new(true));
        let job = PoolJob {
            state: Arc::clone(&self.state),
            is_wanted: Arc::clone(&is_wanted),
            _lock: lock,
        };
        (job, CancelOnDrop(is_wanted))
    }

    pub(crate) fn stop(&self) -> Option<Stop> {
        self.stop.clone()
    }

    /// Uses the steps when no thread takes one.
    ///
    /// # Errors
    ///
    /// Those of `f`, and the failure of an earlier step that no call has returned.
    pub(crate) fn with<R>(
        &self,
        f: impl FnOnce(&mut Steps<'a, Linux>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut state = lock(&self.state);
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        f(state.steps_mut())
    }

    /// Ends the transfer by this failure. If no call has returned the failure of an earlier step,
    /// that one counts instead.
    pub(crate) fn fail(&self, failure: RunError) -> Error {
        let mut state = lock(&self.state);
        let earlier = state.failure.take();
        earlier.unwrap_or_else(|| state.steps_mut().fail(failure))
    }

    pub(crate) fn awaited_event(&self, index: usize) -> Option<Event> {
        lock(&self.state).steps_mut().awaited_event(index)
    }

    pub(super) fn progress(&self) -> Progress {
        lock(&self.state).steps_mut().progress()
    }

    pub(super) fn finish(&self) -> Result<Report, Error> {
        match lock(&self.state).finish() {
            Some(report) => report,
            None => unreachable!("only this and a drop take the steps"),
        }
    }
}

/// A session that is dropped ends the transfer, unless a thread takes a step: then the thread ends
/// it, and the drop does not wait.
impl Drop for Shared<'_> {
    fn drop(&mut self) {
        if let Ok(mut state) = self.state.try_lock() {
            state.steps = None;
        }
    }
}

impl<'a> State<'a> {
    fn steps_mut(&mut self) -> &mut Steps<'a, Linux> {
        match &mut self.steps {
            Some(steps) => steps.value_mut(),
            // `finish` takes the steps and consumes the session.
            None => unreachable!("the transfer is finished"),
        }
    }

    /// Ends the transfer, and closes the descriptors of the steps. Returns `None` if the session has
    /// been dropped.
    fn finish(&mut self) -> Option<Result<Report, Error>> {
        if let Some(failure) = self.failure.take() {
            return Some(Err(failure));
        }
        let mut steps = self.steps.take()?;
        Some(steps.value_mut().finish())
    }
}

impl PoolJob<'_> {
    /// Takes steps until one is blocked, the transfer ends, or about `max` bytes have moved.
    /// Returns `None` if a step fails, which the next call reports, or if its task has gone.
    pub(crate) fn take_steps(self, max: u64) -> Option<Progressed> {
        let mut state = lock(&self.state);
        let mut moved = 0;
        // A finished transfer, or one that has failed, has no further steps.
        while self.is_wanted.load(Ordering::Relaxed) && state.failure.is_none() {
            let steps = state.steps.as_mut()?;
            match steps.value_mut().step(max - moved) {
                Ok(Progressed::Moved(n)) => moved += n.min(max - moved),
                Ok(progressed) => return Some(progressed),
                Err(failure) => state.failure = Some(failure),
            }
            if moved == max {
                return Some(Progressed::Moved(moved));
            }
        }
        None
    }

    /// Ends the transfer. Returns `None` if its task has gone.
    pub(crate) fn finish(self) -> Option<Result<Report, Error>> {
        lock(&self.state).finish()
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        // The lock of the steps makes it visible before the session uses them.
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Locks the steps. After a panic of a callback they take no further step, and are dropped only.
fn lock<'s, 'a>(state: &'s Mutex<State<'a>>) -> MutexGuard<'s, State<'a>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use crate::session::SessionSteps;
    use crate::{Ended, Side, Transfer};

    #[test]
    fn the_next_call_returns_the_failure_of_an_abandoned_step() {
        let runtime = ::tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        for is_stepped in [true, false] {
            let source = File::open("Cargo.toml").unwrap();
            let full = File::options().write(true).open("/dev/full").unwrap();
            let mut session = Transfer::new(source, full).start().unwrap();
            let (steps, _) = session.split_mut().unwrap();
            let SessionSteps::Own(own) = steps else {
                panic!("it has not been shared yet")
            };
            let duplicates = own.duplicate_fds().unwrap();
            steps.share(duplicates);
            let SessionSteps::Shared(shared) = steps else {
                panic!("it has just been shared")
            };

            let (job, wanted) = runtime.block_on(shared.job());
            assert_eq!(job.take_steps(1 << 20), None);
            drop(wanted);
            let error = if is_stepped {
                let error = session.step(1).unwrap_err();
                assert_eq!(session.finish().unwrap().ended(), Ended::Failed);
                error
            } else {
                session.finish().unwrap_err()
            };
            assert_eq!((error.side(), error.bytes()), (Side::Sink, 0));
        }
    }
}
