//! A counting semaphore.

use std::sync::{Condvar, Mutex, PoisonError};

/// Limits how many threads do something at the same time.
#[derive(Debug)]
pub(crate) struct Semaphore {
    n_free: Mutex<usize>,
    freed: Condvar,
}

/// A permit of a [`Semaphore`]. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Permit<'a>(&'a Semaphore);

impl Semaphore {
    /// A semaphore with `n_permits` permits.
    pub(crate) const fn new(n_permits: usize) -> Self {
        Self {
            n_free: Mutex::new(n_permits),
            freed: Condvar::new(),
        }
    }

    /// Takes a permit. Waits until one is free.
    pub(crate) fn acquire(&self) -> Permit<'_> {
        // A number is never half written.
        let n_free = self.n_free.lock().unwrap_or_else(PoisonError::into_inner);
        let n_free = self.freed.wait_while(n_free, |n_free| *n_free == 0);
        *n_free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.n_free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::Semaphore;

    #[test]
    fn no_more_threads_enter_than_there_are_permits_and_in_the_end_all_do() {
        let semaphore = Semaphore::new(2);
        let (inside, most, through) = (
            AtomicUsize::new(0),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _permit = semaphore.acquire();
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        through.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        let [most, through] = [most, through].map(AtomicUsize::into_inner);
        assert!(most <= 2, "{most}");
        assert_eq!(through, 400);
    }

    #[test]
    fn as_many_threads_enter_as_there_are_permits() {
        let semaphore = Semaphore::new(2);
        let both = [semaphore.acquire(), semaphore.acquire()];
        assert_eq!(*semaphore.n_free.lock().unwrap(), 0);
        drop(both);
        assert_eq!(*semaphore.n_free.lock().unwrap(), 2);
    }

    #[test]
    fn a_panic_gives_the_permit_back() {
        let semaphore = Semaphore::new(1);
        let entered = thread::scope(|scope| {
            let permit = scope.spawn(|| {
                let _permit = semaphore.acquire();
                panic!("inside");
            });
            permit.join()
        });
        assert!(entered.is_err());
        drop(semaphore.acquire());
    }
}
