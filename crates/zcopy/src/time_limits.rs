//! When a transfer ends because time has passed: its deadline, and how long it may be idle.

use std::time::{Duration, Instant};

use crate::options::Options;
use crate::sys::Kernel;

/// The time limits of a transfer, on the kernel's clock. Reads the clock only if there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimits {
    deadline: Option<Duration>,
    idle_timeout: Option<Duration>,
    /// When bytes last moved, or the transfer last waited for its own rate.
    active_at: Duration,
}

impl TimeLimits {
    /// Returns the limits of a transfer that starts now.
    pub(crate) fn new<K: Kernel>(kernel: &K, options: &Options) -> Self {
        let now = match (options.deadline, options.idle_timeout) {
            (None, None) => Duration::ZERO,
            _ => kernel.now(),
        };
        let from_now = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        Self {
            deadline: options.deadline.map(|deadline| now + from_now(deadline)),
            idle_timeout: options.idle_timeout,
            active_at: now,
        }
    }

    /// Starts the idle time anew.
    #[inline]
    pub(crate) fn note_activity<K: Kernel>(&mut self, kernel: &K) {
        if self.idle_timeout.is_some() {
            self.active_at = kernel.now();
        }
    }

    /// Returns whether the deadline has passed.
    #[inline]
    pub(crate) fn is_past_deadline<K: Kernel>(&self, kernel: &K) -> bool {
        self.deadline
            .is_some_and(|deadline| deadline <= kernel.now())
    }

    /// Returns the time until the deadline.
    pub(crate) fn until_deadline<K: Kernel>(&self, kernel: &K) -> Option<Duration> {
        let deadline = self.deadline?;
        Some(deadline.saturating_sub(kernel.now()))
    }

    /// Returns the time until the transfer ends unless bytes move: zero if it is over.
    pub(crate) fn remaining<K: Kernel>(&self, kernel: &K) -> Option<Duration> {
        let idle = self
            .idle_timeout
            .map(|timeout| self.active_at.saturating_add(timeout));
        let end = [self.deadline, idle].into_iter().flatten().min()?;
        Some(end.saturating_sub(kernel.now()))
    }
}
