//! A pool of threads that work on a list.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// The number of threads beyond the number of processors, as each waits for its tracer at times.
const MORE_WORKERS: usize = 1;

/// The pool shows its progress after this many items.
const SHOWN: usize = 1_000;

/// Calls `probe` for every item, several at a time.
///
/// # Errors
///
/// The first error of `probe`, or an interruption. The pool then begins no more items.
pub(super) fn for_each<'a, T: Sync>(
    is_interrupted: &AtomicBool,
    items: &'a [T],
    probe: impl Fn(&'a T) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(Ok(()));
    let n_workers = thread::available_parallelism()?.get() + MORE_WORKERS;
    thread::scope(|threads| {
        for _ in 0..n_workers {
            threads.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(n) else { break };
                    if n > 0 && n.is_multiple_of(SHOWN) {
                        println!("{n} of {} done", items.len());
                    }
                    let outcome = if is_interrupted.load(Ordering::Relaxed) {
                        Err(anyhow::anyhow!("interrupted"))
                    } else {
                        probe(item)
                    };
                    if let Err(error) = outcome {
                        next.store(items.len(), Ordering::Relaxed);
                        // A poisoned lock means a panic, which the scope passes on.
                        if let Ok(mut failure) = failure.lock() {
                            *failure = Err(error);
                        }
                    }
                }
            });
        }
    });
    failure.into_inner().unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once_and_an_error_ends_the_rest() {
        let items: Vec<usize> = (0..1_000).collect();
        let sum = AtomicUsize::new(0);
        let is_interrupted = AtomicBool::new(false);
        for_each(&is_interrupted, &items, |n| {
            sum.fetch_add(*n, Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
        assert_eq!(sum.into_inner(), 499_500);
        let failed = for_each(&is_interrupted, &items, |n| match n {
            3 => anyhow::bail!("three"),
            _ => Ok(()),
        });
        assert_eq!(failed.unwrap_err().to_string(), "three");
    }
}
