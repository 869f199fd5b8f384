//! Waits for several things at once.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use ::tokio::io::Interest;

use super::end::AsyncEnd;
use super::watched::Watched;
use crate::call_error::CallError;
use crate::stop::Stop;

/// Whether a task has let others have their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    Slept,
    /// The awaited event had happened before.
    NotAtAll,
}

/// An end, and the events that are waited for there.
pub(super) type Awaited<'w, 'e, End> = (&'w mut Watched<'e, End>, Option<Interest>);

/// Waits until one of the events happens, the time has passed, or the transfer is stopped.
///
/// # Errors
///
/// An end cannot be registered, or the runtime shuts down.
pub(super) async fn wait<A: AsyncEnd, B: AsyncEnd>(
    (a, a_interest): Awaited<'_, '_, A>,
    (b, b_interest): Awaited<'_, '_, B>,
    timeout: Option<Duration>,
    stop: Option<&Stop>,
) -> Result<Waited, CallError> {
    if a_interest.is_some() {
        a.register()?;
    }
    if b_interest.is_some() {
        b.register()?;
    }
    if a_interest.is_none() && b_interest.is_none() && timeout.is_none() {
        // Endpoints that never become ready are not waited for: the next call tells why.
        return Ok(Waited::NotAtAll);
    }
    let mut a = pin!(ready(a, a_interest));
    let mut b = pin!(ready(b, b_interest));
    let mut sleep = pin!(async {
        match timeout {
            Some(time) => ::tokio::time::sleep(time).await,
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
        if let Poll::Ready(ready) = a.as_mut().poll(context) {
            return Poll::Ready(ready);
        }
        if let Poll::Ready(ready) = b.as_mut().poll(context) {
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

async fn ready<End: AsyncEnd>(
    end: &Watched<'_, End>,
    interest: Option<Interest>,
) -> Result<(), CallError> {
    match interest {
        Some(interest) => end.ready(interest).await,
        None => pending().await,
    }
}
