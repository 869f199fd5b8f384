//! The processor time of a thread that moves bytes.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A thread that waits in a loop uses all of the time; one that sleeps, next to none. The rest is
/// for the bytes themselves: tests are not optimized.
const ALLOWANCE: Duration = Duration::from_millis(80);

/// Runs something that mostly waits.
///
/// # Panics
///
/// If the thread uses an eighth of the time and [`ALLOWANCE`].
#[track_caller]
pub(crate) fn mostly_asleep<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (start, before) = (Instant::now(), thread_time());
    let result = work();
    let elapsed = start.elapsed();
    let used = thread_time().checked_sub(before).unwrap();
    assert!(
        used <= elapsed / 8 + ALLOWANCE,
        "{what}: {used:?} of processor time in {elapsed:?}"
    );
    result
}

/// Returns the processor time of the calling thread.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}
