use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

/// Squares the numbers below `n` on so many threads, `slow` of them reluctantly.
fn squares(n_threads: usize, n: u64, slow: impl Fn(u64) -> bool + Sync) -> Vec<u64> {
    let mut jobs = 0..n;
    let mut squares = Vec::new();
    let all = in_order(
        n_threads,
        OrderedJobs {
            next: || jobs.next(),
            start: || {
                |n: u64| {
                    if slow(n) {
                        thread::yield_now();
                    }
                    n * n
                }
            },
            weigh: |_: &u64| 8,
            deliver: |due: &mut dyn Iterator<Item = u64>| {
                squares.extend(due);
                Ok::<(), ()>(())
            },
        },
    );
    all.unwrap();
    squares
}

#[test]
fn results_come_in_the_order_of_their_jobs() {
    for n_threads in [0, 1, 2, 7] {
        for n in [0, 1, 2, 1000] {
            let expected: Vec<u64> = (0..n).map(|n| n * n).collect();
            assert_eq!(squares(n_threads, n, |n| n % 3 == 0), expected);
        }
    }
}

#[test]
fn nobody_waits_for_the_first_job() {
    // It ends when the last one has begun.
    let last_began = Barrier::new(2);
    let found = squares(2, 1000, |n| {
        if n == 0 || n == 999 {
            last_began.wait();
        }
        false
    });
    assert_eq!(found.len(), 1000);
}

#[test]
fn results_wait_in_so_much_memory_and_no_more() {
    const WEIGHT: usize = MAX_WAITING / 4;
    let (begun, released) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut jobs = 0..1000_u64;
    let mut most = 0;
    let all = in_order(
        2,
        OrderedJobs {
            next: || jobs.next(),
            start: || {
                |n: u64| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    // The first job lasts until five others wait, which are too many.
                    while n == 0 && begun.load(Ordering::SeqCst) < 6 {
                        thread::yield_now();
                    }
                    if n == 0 {
                        released.store(true, Ordering::SeqCst);
                    }
                    (n, released.load(Ordering::SeqCst))
                }
            },
            weigh: |_: &(u64, bool)| WEIGHT,
            deliver: |due: &mut dyn Iterator<Item = (u64, bool)>| {
                let early = due.filter(|(_, released)| !released).count();
                most = most.max(early);
                Ok::<(), ()>(())
            },
        },
    );
    all.unwrap();
    assert!(most <= 5, "{most} were done before the first");
}

#[test]
fn an_error_ends_the_work() {
    for n_threads in [1, 2, 5] {
        let mut jobs = 0..u64::MAX;
        let all = in_order(
            n_threads,
            OrderedJobs {
                next: || jobs.next(),
                start: || |n: u64| n,
                weigh: |_: &u64| 8,
                deliver: |due: &mut dyn Iterator<Item = u64>| {
                    for n in due {
                        if n == 100 {
                            return Err("enough");
                        }
                    }
                    Ok(())
                },
            },
        );
        assert_eq!(all, Err("enough"));
    }
}

#[test]
fn after_the_last_job_no_other_is_asked_for() {
    let mut n_asked = 0;
    let all = in_order(
        3,
        OrderedJobs {
            next: || {
                n_asked += 1;
                (n_asked < 5).then_some(n_asked)
            },
            start: || |n: u64| n,
            weigh: |_: &u64| 8,
            deliver: |due: &mut dyn Iterator<Item = u64>| {
                due.for_each(drop);
                Ok::<(), ()>(())
            },
        },
    );
    all.unwrap();
    assert_eq!(n_asked, 5);
}

#[test]
fn a_panic_ends_the_work_and_goes_on() {
    let panicked = std::panic::catch_unwind(|| {
        let mut jobs = 0..u64::MAX;
        in_order(
            2,
            OrderedJobs {
                next: || jobs.next(),
                start: || {
                    |n: u64| {
                        assert_ne!(n, 3, "as it should");
                        n
                    }
                },
                weigh: |_: &u64| MAX_WAITING,
                deliver: |due: &mut dyn Iterator<Item = u64>| {
                    due.for_each(drop);
                    Ok::<(), ()>(())
                },
            },
        )
    });
    assert!(panicked.is_err());
}
