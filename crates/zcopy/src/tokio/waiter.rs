//! [`Waiter`]: how a task waits between the steps of a transfer.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::timer::Timer;
use super::turn::Turn;
use crate::call_error::CallError;
use crate::context::RETRY_DELAY;
use crate::stop::Stop;

/// What a task needs between the steps of a transfer: to wait, to be stopped, and to let other
/// tasks have their turn.
pub(super) struct Waiter<T> {
    stop: Option<Stop>,
    timer: T,
    pub(super) turn: Turn,
    /// How many waits were over at once since bytes have moved.
    ///
    /// tokio never forgets that an end was closed for reading or writing. A FIFO may have another
    /// peer since, and the error queue of a socket may have been read. Every wait for such an end
    /// is over at once.
    n_false_wakeups: u32,
}

impl<T: Timer> Waiter<T> {
    pub(super) fn new(stop: Option<Stop>, timer: T) -> Self {
        Self {
            stop,
            timer,
            turn: Turn::new(),
            n_false_wakeups: 0,
        }
    }

    /// Notes that a step has moved bytes.
    pub(super) fn note_moved(&mut self) {
        self.n_false_wakeups = 0;
    }

    /// Waits until an end is ready, the time has passed, or the transfer is stopped.
    ///
    /// Returns whether the registrations may be stale: several waits were over at once, while steps
    /// stayed blocked. If new registrations have not helped, it sleeps before it returns.
    ///
    /// # Errors
    ///
    /// Those of `ready`.
    pub(super) async fn wait(
        &mut self,
        ready: impl Future<Output = Result<(), CallError>>,
        timeout: Option<Duration>,
    ) -> Result<bool, CallError> {
        if !self.wait_once(ready, timeout).await? {
            self.turn = Turn::new();
            return Ok(false);
        }
        self.n_false_wakeups = self.n_false_wakeups.saturating_add(1);
        if self.n_false_wakeups > 4 {
            self.timer
                .start(timeout.map_or(RETRY_DELAY, |timeout| timeout.min(RETRY_DELAY)));
            poll_fn(|context| self.timer.poll_elapsed(context)).await;
        }
        Ok(self.n_false_wakeups > 2)
    }

    /// Waits, and returns whether the wait was over at once: false if other tasks have had their
    /// turn meanwhile.
    async fn wait_once(
        &mut self,
        ready: impl Future<Output = Result<(), CallError>>,
        timeout: Option<Duration>,
    ) -> Result<bool, CallError> {
        let Self { stop, timer, .. } = self;
        if let Some(timeout) = timeout {
            timer.start(timeout);
        }
        let mut ready = pin!(ready);
        let mut stopped = pin!(async {
            match stop {
                Some(stop) => stop.stopped().await,
                None => pending().await,
            }
        });
        let mut is_over_at_once = true;
        poll_fn(|context| {
            if let Poll::Ready(ready) = ready.as_mut().poll(context) {
                return Poll::Ready(ready);
            }
            let is_over = timeout.is_some() && timer.poll_elapsed(context).is_ready();
            if is_over || stopped.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            is_over_at_once = false;
            Poll::Pending
        })
        .await?;
        Ok(is_over_at_once)
    }

    /// Lets other tasks have their turn, if this one has had its own.
    pub(super) async fn pass_on(&mut self) {
        self.turn.pass_on().await;
    }
}
