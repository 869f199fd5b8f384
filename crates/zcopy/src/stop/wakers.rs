//! The tasks that a [`Stop`](super::Stop) wakes.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The wakers of the tasks that wait for one `Stop`, each under a number of its own.
#[derive(Debug, Default)]
pub(super) struct Wakers(Mutex<Registered>);

#[derive(Debug, Default)]
struct Registered {
    next_id: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Wakers {
    /// Wakes every task that waits.
    pub(super) fn wake_all(&self) {
        let wakers = std::mem::take(&mut self.lock().wakers);
        // A waker may take locks of its own, so that this one is free by now.
        wakers.into_values().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Registered> {
        // No change of the map is left half done by a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait for a `Stop`. Dropping it removes its waker.
pub(crate) struct Stopped<'s> {
    flag: &'s AtomicBool,
    wakers: &'s Wakers,
    id: Option<u64>,
}

impl<'s> Stopped<'s> {
    pub(super) fn new(flag: &'s AtomicBool, wakers: &'s Wakers) -> Self {
        Self {
            flag,
            wakers,
            id: None,
        }
    }
}

impl Future for Stopped<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut registered = self.wakers.lock();
        let id = self.id.unwrap_or(registered.next_id);
        registered.next_id = registered.next_id.max(id + 1);
        registered.wakers.insert(id, context.waker().clone());
        drop(registered);
        self.id = Some(id);
        // The flag is set before the wakers are taken: one of the two sees the other.
        if self.flag.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.wakers.lock().wakers.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;
    use crate::Stop;

    #[derive(Default)]
    struct CountingWaker(AtomicUsize);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_stop_wakes_the_tasks_that_wait_and_forgets_those_that_have_gone() {
        let stop = Stop::new().unwrap();
        let counts = [(); 2].map(|()| Arc::new(CountingWaker::default()));
        let [mut stays, mut goes] = [(); 2].map(|()| Box::pin(stop.stopped()));
        for (wait, count) in [&mut stays, &mut goes].into_iter().zip(&counts) {
            let waker = Waker::from(count.clone());
            let mut context = Context::from_waker(&waker);
            for _ in 0..2 {
                assert_eq!(wait.as_mut().poll(&mut context), Poll::Pending);
            }
        }
        assert_eq!(stop.0.wakers.lock().wakers.len(), 2);
        drop(goes);
        stop.stop();
        let woken = counts.map(|count| count.0.load(Ordering::Relaxed));
        assert_eq!(woken, [1, 0]);
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(stays.as_mut().poll(&mut context), Poll::Ready(()));
        drop(stays);
        assert!(stop.0.wakers.lock().wakers.is_empty());
    }
}
