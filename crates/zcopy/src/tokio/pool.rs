//! Transfers with a file: a thread of the blocking pool takes their steps.

use std::panic::resume_unwind;

use ::tokio::io::Interest as Events;
use ::tokio::task::{JoinError, JoinHandle, spawn_blocking};

use super::end::AsyncEnd;
use super::session::sides_ready;
use super::timer::RuntimeTimer;
use super::waiter::Waiter;
use super::watched::Watched;
use crate::call_error::CallError;
use crate::error::{Result, RunError};
use crate::report::{Ended, Report};
use crate::session::{Ends, Progressed, SessionSteps, Shared};
use crate::side::Side;
use crate::sys::{Errno, Linux};

/// How many bytes a thread moves before others of the pool have their turn. A job costs 10 us.
const MAX_BYTES: u64 = 16 << 20;

/// Drives a transfer whose steps may wait for a disk.
///
/// A thread cannot clear what the reactor believes, as a step between sockets does. So a task whose
/// steps are blocked polls once, before it waits.
pub(super) async fn drive<Source: AsyncEnd, Sink: AsyncEnd>(
    steps: &mut SessionSteps<'static>,
    ends: &Ends<Source, Sink>,
) -> Result<Ended> {
    let shared = share(steps)?;
    let mut waiter = Waiter::new(shared.stop(), RuntimeTimer::default());
    let (mut source, mut sink) = Watched::both(Linux, ends);
    loop {
        match run_job(shared).await? {
            Progressed::Moved(_) => waiter.note_moved(),
            Progressed::Ended(ended) => return Ok(ended),
            Progressed::Blocked(interest) => {
                if interest.source {
                    source.forget_unless_ready(Events::READABLE);
                }
                if interest.sink {
                    sink.forget_unless_ready(Events::WRITABLE);
                }
                let ready = sides_ready(interest, &mut source, &mut sink);
                let stale = waiter.wait(ready, interest.timeout).await;
                if stale.map_err(|error| shared.fail(error.into()))? {
                    source.unregister_if_stale();
                    sink.unregister_if_stale();
                }
            }
        }
    }
}

/// Puts the steps where a thread can take them, with duplicates of their descriptors.
///
/// # Errors
///
/// Those of `dup(2)`. The transfer has failed then.
pub(super) fn share<'s>(steps: &'s mut SessionSteps<'static>) -> Result<&'s Shared<'static>> {
    if let SessionSteps::Own(own) = steps {
        match own.duplicate_fds() {
            Ok(duplicates) => steps.share(duplicates),
            Err(error) => return Err(own.fail(error.into())),
        }
    }
    match steps {
        SessionSteps::Shared(shared) => Ok(shared),
        SessionSteps::Own(_) => unreachable!("the steps have been shared above"),
    }
}

/// Lets a thread take steps.
pub(super) async fn run_job(shared: &Shared<'static>) -> Result<Progressed> {
    let (job, _cancel_on_drop) = shared.job().await;
    match joined(spawn_blocking(move || job.take_steps(MAX_BYTES))).await {
        Ok(Some(progressed)) => Ok(progressed),
        // A step has failed, and this returns the failure.
        Ok(None) => shared.with(|_| Ok(Progressed::Moved(0))),
        Err(error) => Err(shared.fail(error)),
    }
}

/// Lets a thread end the transfer.
pub(super) async fn finish(shared: &Shared<'static>) -> Result<Report> {
    let (job, _cancel_on_drop) = shared.job().await;
    match joined(spawn_blocking(move || job.finish())).await {
        Ok(Some(report)) => report,
        Ok(None) => unreachable!("the session is borrowed, and has not been dropped"),
        Err(error) => Err(shared.fail(error)),
    }
}

/// Returns the result of a thread. A panic of a callback goes on in the task.
async fn joined<T>(thread: JoinHandle<T>) -> std::result::Result<T, RunError> {
    thread
        .await
        .map_err(|error: JoinError| match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_cancelled) => RunError::from(CallError::new(
                "spawn_blocking",
                Side::Neither,
                Errno::CANCELED,
            )),
        })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::Transfer;

    #[test]
    fn a_job_for_a_session_that_was_dropped_does_nothing() {
        let runtime = ::tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let null = || File::options().read(true).write(true).open("/dev/null");
            let transfer = Transfer::new(null().unwrap(), null().unwrap());
            let mut session = transfer.start().unwrap();
            let (steps, _) = session.split_mut().unwrap();
            let (job, _cancel_on_drop) = share(steps).unwrap().job().await;
            drop(session);
            assert!(job.finish().is_none());
        });
    }
}
