//! Transfers with a file: a thread of the blocking pool takes their steps.

use std::panic::resume_unwind;

use ::tokio::task::{JoinError, JoinHandle, spawn_blocking};

use super::end::AsyncEnd;
use super::wait::wait;
use super::watched::{Watched, forget_unless_ready};
use crate::call_error::CallError;
use crate::error::{Result, RunError};
use crate::report::{Ended, Report};
use crate::session::{Ends, Place, Progressed, Shared};
use crate::side::Side;
use crate::sys::Errno;

/// How many bytes a thread moves before others of the pool have their turn. A visit costs 10 us.
const MAX_BYTES: u64 = 16 << 20;

/// Drives a transfer whose steps may wait for a disk.
///
/// A thread cannot clear what the reactor believes, as a step between sockets does. So a task whose
/// steps are blocked polls once, before it waits.
pub(super) async fn drive<Source: AsyncEnd, Sink: AsyncEnd>(
    place: &mut Place<'static>,
    ends: &Ends<Source, Sink>,
) -> Result<Ended> {
    if let Place::Here(steps) = place {
        let duplicate = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned();
        let source = duplicate(ends.source_fd()).map_err(|error| (Side::Source, error));
        let both = source.and_then(|source| match duplicate(ends.sink_fd()) {
            Ok(sink) => Ok((source, sink)),
            Err(error) => Err((Side::Sink, error)),
        });
        match both {
            Ok((source, sink)) => place.share(source, sink),
            Err((side, error)) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::MFILE);
                return Err(steps.fail(CallError::new("dup", side, errno).into()));
            }
        }
    }
    let Place::Shared(shared) = place else {
        unreachable!("the steps have been shared above");
    };
    let stop = shared.stop();
    let (mut source, mut sink) = Watched::both(ends);
    loop {
        match visit(shared).await? {
            Progressed::Moved(_) => {}
            Progressed::Ended(ended) => return Ok(ended),
            Progressed::Blocked(interest) => {
                forget_unless_ready(interest, &source, &sink);
                let waited = wait(
                    (
                        &mut source,
                        interest.source.then_some(::tokio::io::Interest::READABLE),
                    ),
                    (
                        &mut sink,
                        interest.sink.then_some(::tokio::io::Interest::WRITABLE),
                    ),
                    interest.timeout,
                    stop.as_ref(),
                );
                if let Err(error) = waited.await {
                    return shared.with(|steps| Err(steps.fail(error.into())));
                }
            }
        }
    }
}

/// Lets a thread take steps.
async fn visit(shared: &Shared<'static>) -> Result<Progressed> {
    let (visit, _wanted) = shared.visit();
    match joined(spawn_blocking(move || visit.take_steps(MAX_BYTES))).await {
        Ok(Some(progressed)) => Ok(progressed),
        // A step has failed, and this returns the failure.
        Ok(None) => shared.with(|_| Ok(Progressed::Moved(0))),
        Err(error) => shared.with(|steps| Err(steps.fail(error))),
    }
}

/// Lets a thread end the transfer.
pub(super) async fn finish(shared: &Shared<'static>) -> Result<Report> {
    let (visit, _wanted) = shared.visit();
    match joined(spawn_blocking(move || visit.finish())).await {
        Ok(report) => report,
        Err(error) => Err(shared.with(|steps| Ok(steps.fail(error)))?),
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
