//! The bell that ends what runs beside the copy.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A bell that rings once, and is heard by all threads from then on.
#[derive(Debug, Default)]
pub(super) struct End {
    has_rung: Mutex<bool>,
    bell: Condvar,
}

impl End {
    /// Says that it is over.
    pub(super) fn ring(&self) {
        *self.lock() = true;
        self.bell.notify_all();
    }

    /// Whether it is over.
    pub(super) fn has_rung(&self) -> bool {
        *self.lock()
    }

    /// Sleeps for so long, or until it is over: whether it is.
    pub(super) fn rings_within(&self, patience: Duration) -> bool {
        let waited = self
            .bell
            .wait_timeout_while(self.lock(), patience, |has_rung| !*has_rung);
        let (has_rung, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *has_rung
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.has_rung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_sleeps_is_woken_by_the_bell() {
        let end = End::default();
        assert!(!end.has_rung());
        assert!(!end.rings_within(Duration::ZERO));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| end.rings_within(Duration::MAX));
            end.ring();
            assert!(sleeper.join().unwrap());
        });
        assert!(end.has_rung());
        assert!(end.rings_within(Duration::ZERO), "also afterwards");
    }
}
