use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;

fn path(n: usize) -> Vec<u8> {
    format!("{n:05}").into_bytes()
}

/// Takes `n` batches, with the number of those that each of the runs has taken in `taken`.
fn take_all(follower: &Follower<'_>, n: usize, bytes: u64, taken: &[AtomicUsize]) -> usize {
    let interrupt = Interrupt::default();
    let mut most_ahead = 0;
    for k in 0..n {
        follower.take_at(path(k), bytes, false, &interrupt);
        let mine = taken[follower.index].fetch_add(1, Ordering::SeqCst) + 1;
        let others = taken.iter().map(|taken| taken.load(Ordering::SeqCst));
        let least = others.min().unwrap();
        most_ahead = most_ahead.max(mine.saturating_sub(least));
        if follower.index == 0 {
            thread::yield_now();
        }
    }
    most_ahead
}

fn most_ahead_of(n_runs: usize, bytes: u64) -> usize {
    let lead = Lead::new(n_runs, u64::MAX);
    let taken: Vec<_> = (0..n_runs).map(|_| AtomicUsize::new(0)).collect();
    thread::scope(|scope| {
        let runs = (0..n_runs).map(|index| {
            let (lead, taken) = (&lead, &taken[..]);
            scope.spawn(move || take_all(&lead.follower(index), 2000, bytes, taken))
        });
        let runs: Vec<_> = runs.collect();
        runs.into_iter()
            .map(|run| run.join().unwrap())
            .max()
            .unwrap()
    })
}

#[test]
fn no_run_gets_further_ahead_than_the_limit_of_batches_and_all_end() {
    let most = most_ahead_of(3, 1);
    // The position moves before the test counts.
    assert!(most <= MAX_BATCHES + 2, "{most}");
}

#[test]
fn bytes_limit_the_lead_too() {
    let most = most_ahead_of(2, MAX_BYTES / 4);
    assert!(most <= 4 + 2, "{most}");
}

#[test]
fn a_long_file_is_begun_by_all_runs_together() {
    let lead = Lead::new(2, 0);
    let interrupt = Interrupt::default();
    let begun = AtomicUsize::new(0);
    let [fast, slow] = [lead.follower(0), lead.follower(1)];
    thread::scope(|scope| {
        let (begun, interrupt) = (&begun, &interrupt);
        scope.spawn(move || {
            fast.take_at(path(1), 1, true, interrupt);
            fast.take_at(path(2), 1, true, interrupt);
            begun.store(2, Ordering::SeqCst);
        });
        slow.take_at(path(1), 1, true, interrupt);
        assert_eq!(begun.load(Ordering::SeqCst), 0);
        slow.take_at(path(2), 1, true, interrupt);
    });
    assert_eq!(begun.into_inner(), 2);
}

#[test]
fn a_run_that_ended_panicked_or_stands_aside_is_not_waited_for() {
    let interrupt = Interrupt::default();
    let lead = Lead::new(4, 0);
    let rest = lead.follower(0);
    lead.follower(1).end();
    let panicked = thread::scope(|scope| {
        let follower = lead.follower(2);
        let run = scope.spawn(move || {
            let _follower = follower;
            panic!("in the middle");
        });
        run.join()
    });
    assert!(panicked.is_err());
    let aside = lead.follower(3);
    aside.stand_aside();
    rest.take_at(path(7), 1, true, &interrupt);
    aside.come_back();
    // It is behind, and does not wait.
    aside.take_at(path(3), 1, true, &interrupt);
}

#[test]
fn a_signal_ends_the_wait() {
    let lead = Lead::new(2, 0);
    let interrupt = Interrupt::default();
    let _other = lead.follower(1);
    interrupt.flag().store(true, Ordering::SeqCst);
    lead.follower(0).take_at(path(1), 1, true, &interrupt);
}
