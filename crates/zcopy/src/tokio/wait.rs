//! Waits for several things at once.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use ::tokio::io::Interest;

use super::end::AsyncEnd;
use super::watched::Watched;
use crate::call_error::CallError;
use crate::context::RETRY_DELAY;
use crate::stop::Stop;
use crate::sys::Kernel;

/// Whether a task has let others have their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    Slept,
    /// The awaited event had happened before.
    NotAtAll,
}

/// Counts the waits that were over at once, while steps stayed blocked.
///
/// tokio never forgets that an end was closed for reading or writing. A FIFO may have another peer
/// since, and the error queue of a socket may have been read. Every wait for such an end is over at
/// once.
#[derive(Debug, Default)]
pub(super) struct FalseWakeups(u32);

impl FalseWakeups {
    /// Notes that a step has moved bytes.
    pub(super) fn clear(&mut self) {
        self.0 = 0;
    }

    /// Notes the result of a wait. Returns whether a registration may be stale. Sleeps, if new
    /// registrations have not helped, and not beyond the time-out of the wait.
    pub(super) async fn note<Sleep: Future<Output = ()>>(
        &mut self,
        waited: Waited,
        timeout: Option<Duration>,
        sleep: impl FnOnce(Duration) -> Sleep,
    ) -> bool {
        if waited == Waited::Slept {
            return false;
        }
        self.0 = self.0.saturating_add(1);
        if self.0 > 4 {
            sleep(timeout.map_or(RETRY_DELAY, |timeout| timeout.min(RETRY_DELAY))).await;
        }
        self.0 > 2
    }
}

/// Waits until an end is ready, the time has passed, or the transfer is stopped.
///
/// # Errors
///
/// Those of `ready`.
pub(super) async fn wait(
    ready: impl Future<Output = Result<(), CallError>>,
    sleep: Option<impl Future<Output = ()>>,
    stop: Option<&Stop>,
) -> Result<Waited, CallError> {
    let mut ready = pin!(ready);
    let mut sleep = pin!(async {
        match sleep {
            Some(sleep) => sleep.await,
            None => pending().await,
        }
    });
    let mut stopped = pin!(async {
        match stop {
            Some(stop) => stop.stopped().await,
            None => pending().await,
        }
    });
    let mut waited = Waited::NotAtAll;
    poll_fn(|context| {
        if let Poll::Ready(ready) = ready.as_mut().poll(context) {
            return Poll::Ready(ready);
        }
        if sleep.as_mut().poll(context).is_ready() || stopped.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        waited = Waited::Slept;
        Poll::Pending
    })
    .await?;
    Ok(waited)
}

/// An end, and the events that are waited for there.
pub(super) type Awaited<'w, 'e, K, End> = (&'w mut Watched<'e, K, End>, Option<Interest>);

/// Waits until one of two ends is ready, for ever if neither is waited for.
///
/// # Errors
///
/// An end cannot be registered, or the runtime shuts down.
pub(super) async fn either_ready<K: Kernel, A: AsyncEnd, B: AsyncEnd>(
    (a, a_interest): Awaited<'_, '_, K, A>,
    (b, b_interest): Awaited<'_, '_, K, B>,
) -> Result<(), CallError> {
    if a_interest.is_some() {
        a.register()?;
    }
    if b_interest.is_some() {
        b.register()?;
    }
    let mut a = pin!(ready(a, a_interest));
    let mut b = pin!(ready(b, b_interest));
    poll_fn(|context| match a.as_mut().poll(context) {
        Poll::Ready(ready) => Poll::Ready(ready),
        Poll::Pending => b.as_mut().poll(context),
    })
    .await
}

/// Waits until one of these events has happened at the end, for ever if none is waited for.
///
/// # Errors
///
/// The runtime shuts down.
pub(super) async fn ready<K: Kernel, End: AsyncEnd>(
    end: &Watched<'_, K, End>,
    interest: Option<Interest>,
) -> Result<(), CallError> {
    match interest {
        Some(interest) => end.ready(interest).await,
        None => pending().await,
    }
}
