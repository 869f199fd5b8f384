//! A flag that stops the threads beside the copy.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A flag that is set once, and wakes the threads that wait for it.
#[derive(Debug, Default)]
pub(crate) struct StopFlag {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl StopFlag {
    /// Sets the flag.
    pub(crate) fn stop(&self) {
        *self.lock() = true;
        self.changed.notify_all();
    }

    /// Whether the flag is set.
    pub(crate) fn is_set(&self) -> bool {
        *self.lock()
    }

    /// Sleeps until the flag is set, but no longer than `timeout`. Returns whether it is set.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), timeout, |is_set| !*is_set);
        let (is_set, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *is_set
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        // A bool is never half written.
        self.is_set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets a [`StopFlag`] when it is dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct StopOnDrop<'a>(pub(super) &'a StopFlag);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_wakes_a_thread_that_waits() {
        let flag = StopFlag::default();
        assert!(!flag.is_set());
        assert!(!flag.wait(Duration::ZERO));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| flag.wait(Duration::MAX));
            flag.stop();
            assert!(sleeper.join().unwrap());
        });
        assert!(flag.is_set());
        assert!(flag.wait(Duration::ZERO), "also afterwards");
    }

    #[test]
    fn a_panic_sets_the_flag() {
        let flag = StopFlag::default();
        let panicked = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _stop = StopOnDrop(&flag);
                panic!("while others wait");
            });
            thread.join()
        });
        assert!(panicked.is_err());
        assert!(flag.is_set());
    }
}
