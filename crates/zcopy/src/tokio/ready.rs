//! Waits for one end, or for the first of two.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;

use ::tokio::io::Interest;

use super::end::AsyncEnd;
use super::watched::Watched;
use crate::call_error::CallError;
use crate::sys::Kernel;

/// An end, and the events that the task waits for there.
pub(super) type AwaitedEnd<'w, 'e, K, End> = (&'w mut Watched<'e, K, End>, Option<Interest>);

/// Waits until one of two ends is ready, for ever if neither is waited for.
///
/// # Errors
///
/// An end cannot be registered, or the runtime shuts down.
pub(super) async fn either_ready<K: Kernel, A: AsyncEnd, B: AsyncEnd>(
    (a, a_interest): AwaitedEnd<'_, '_, K, A>,
    (b, b_interest): AwaitedEnd<'_, '_, K, B>,
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
