//! The processor time of a thread that moves bytes. One that waits in a loop uses all of its time,
//! and one that sleeps next to none.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Six times what a transfer of 3 MiB took. Tests are not optimized.
const FOR_THE_BYTES: Duration = Duration::from_millis(100);

/// Moves bytes over a slow network.
///
/// # Panics
///
/// If the thread uses an eighth of the time, and [`FOR_THE_BYTES`].
#[track_caller]
pub(crate) fn mostly_asleep<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (result, elapsed, used) = measure(work);
    let is_asleep = used <= elapsed / 8 + FOR_THE_BYTES;
    assert!(is_asleep, "{what}: {used:?} of {elapsed:?}");
    result
}

/// Moves bytes, and waits for more than a second.
///
/// # Panics
///
/// If the thread uses more than [`FOR_THE_BYTES`].
#[track_caller]
pub(crate) fn asleep<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (result, elapsed, used) = measure(work);
    assert!(elapsed > Duration::from_secs(1), "{what}: {elapsed:?}");
    assert!(used <= FOR_THE_BYTES, "{what}: {used:?} of {elapsed:?}");
    result
}

/// Returns the result, the time that has passed, and the processor time of this thread.
fn measure<T>(work: impl FnOnce() -> T) -> (T, Duration, Duration) {
    let (start, before) = (Instant::now(), thread_time());
    let result = work();
    let used = thread_time().checked_sub(before).unwrap();
    (result, start.elapsed(), used)
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}
