//! `ppoll(2)`, and the way round its limit on the number of descriptors.

use std::time::{Duration, Instant};

use rustix::event::Timespec;

use super::{Errno, PollFd, Result};

/// The time between two looks at the descriptors, if they cannot be polled together.
const INTERVAL: Duration = Duration::from_millis(1);

/// Waits for one of the descriptors, at most for `timeout`.
///
/// # Kernel notes
///
/// `ppoll(2)` fails with `EINVAL` if it gets more descriptors than the process may open by now,
/// though it opened them before: another process may lower the limit at any time (`prlimit(2)`).
/// Then they are polled one by one, at intervals.
pub(super) fn poll(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize> {
    match poll_together(fds, timeout) {
        Err(Errno::INVAL) if fds.len() > 1 => poll_one_by_one(fds, timeout),
        polled => polled,
    }
}

fn poll_together(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize> {
    // A time-out that is too long for the kernel counts as no time-out.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    rustix::event::poll(fds, timeout.as_ref())
}

/// Fails with `EINVAL` if the process may open no descriptor at all.
fn poll_one_by_one(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize> {
    let begin = Instant::now();
    loop {
        let mut n_found = 0;
        for fd in fds.chunks_mut(1) {
            n_found += poll_together(fd, Some(Duration::ZERO))?;
        }
        let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
        if n_found > 0 || left.is_some_and(|left| left.is_zero()) {
            return Ok(n_found);
        }
        let pause = left.map_or(INTERVAL, |left| left.min(INTERVAL));
        poll_together(&mut [], Some(pause))?;
    }
}
