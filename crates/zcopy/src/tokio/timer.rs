//! [`Timer`]: tells a task that a time has passed.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ::tokio::time::{Instant, Sleep, sleep_until};

/// A timer that can be started again and again.
pub(crate) trait Timer {
    /// Starts the timer: it elapses after this time.
    fn start(&mut self, timeout: Duration);

    /// Polls whether the started timer has elapsed.
    fn poll_elapsed(&mut self, context: &mut Context<'_>) -> Poll<()>;
}

/// A timer of the runtime.
///
/// It keeps one `Sleep` from wait to wait. A new one, if it is the first of the runtime to elapse,
/// wakes the runtime's driver by a write to an eventfd. One that is moved to a later time does not.
#[derive(Debug, Default)]
pub(super) struct RuntimeTimer {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer for RuntimeTimer {
    fn start(&mut self, timeout: Duration) {
        let now = Instant::now();
        // The clock cannot represent every sum. No wait lasts 30 years.
        let end = now
            .checked_add(timeout)
            .unwrap_or_else(|| now + Duration::from_secs(30 * 365 * 86_400));
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(end),
            None => self.sleep = Some(Box::pin(sleep_until(end))),
        }
    }

    fn poll_elapsed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}
