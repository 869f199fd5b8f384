//! A bound on how many threads do something at once.

use std::sync::{Condvar, Mutex, PoisonError};

/// Lets so many threads pass, and the next one when one of them is through.
#[derive(Debug)]
pub(super) struct Gate {
    n_free: Mutex<usize>,
    freed: Condvar,
}

/// A thread that has passed a [`Gate`]. Once this is dropped it is through.
#[derive(Debug)]
pub(super) struct Permit<'a>(&'a Gate);

impl Gate {
    /// A gate for so many at once.
    pub(super) const fn new(most: usize) -> Self {
        Self {
            n_free: Mutex::new(most),
            freed: Condvar::new(),
        }
    }

    /// Waits until there is room.
    pub(super) fn acquire(&self) -> Permit<'_> {
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

    use super::Gate;

    #[test]
    fn no_more_pass_at_once_than_were_said_and_in_the_end_all_do() {
        let gate = Gate::new(2);
        let (inside, most, through) = (
            AtomicUsize::new(0),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _permit = gate.acquire();
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
    fn as_many_pass_as_were_said() {
        let gate = Gate::new(2);
        let both = [gate.acquire(), gate.acquire()];
        assert_eq!(*gate.n_free.lock().unwrap(), 0);
        drop(both);
        assert_eq!(*gate.n_free.lock().unwrap(), 2);
    }

    #[test]
    fn who_panics_is_through_too() {
        let gate = Gate::new(1);
        let passed = thread::scope(|scope| {
            let permit = scope.spawn(|| {
                let _permit = gate.acquire();
                panic!("inside");
            });
            permit.join()
        });
        assert!(passed.is_err());
        drop(gate.acquire());
    }
}
